//go:build !linux

package imaging

import "time"

// threadTime returns 0, as the time of a thread is not known here: files that cost much and give nothing are decoded to
// their end.
func threadTime() time.Duration { return 0 }
