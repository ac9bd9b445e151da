//go:build !linux

package imaging

import "time"

// threadTime returns 0, because the time of a thread is unknown on this system: files that cost much and give nothing
// are decoded to their end.
func threadTime() time.Duration { return 0 }
