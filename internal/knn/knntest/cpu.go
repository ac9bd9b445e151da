package knntest

import (
	"math"
	"syscall"
)

// CPUSeconds returns the processor time that this process has used: on a shared machine it says more than the clock.
func CPUSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
