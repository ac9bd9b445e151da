package imaging

import (
	"syscall"
	"time"
)

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		return 0 // only arguments can be wrong
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
