// Package testdevice is a device with the rules of a GPU that computes on the processor. It fails where a GPU would: an
// operation on tensors that are not all on it is an error. It counts the slow operations of a GPU: waits of the host,
// copies, kernels, bytes, and operations on float64 and int64.
//
// It is libtorch's device "privateuseone". Its tensors are in the host's memory, so it is only for tests. Backward
// passes run on a thread of the device, as on a GPU. It does not model asynchronous kernels: nothing here runs beside
// the host.
//
// The package is written for libtorch 1.13, and for a process without CUDA. Otherwise [Install] returns an error.
package testdevice

// #cgo CXXFLAGS: -O1 -I/usr/include/torch/csrc/api/include
// #cgo LDFLAGS: -ltorch -ltorch_cpu -lc10
// #include <stdlib.h>
// #include "device.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Name is the device's name for [torch.WorkerOptions].
const Name = "privateuseone:0"

var install = sync.OnceValue(func() error {
	if message := C.psd_install(); message != nil {
		defer C.free(unsafe.Pointer(message))
		return errors.New(C.GoString(message))
	}
	return nil
})

// Install makes the device, before the first worker of the process.
func Install() error { return install() }

// Counts are the operations requested from the device.
type Counts struct {
	Syncs      map[string]int64 // waits of the host, by cause
	Kernels    map[string]int64 // by operation
	Wide       map[string]int64 // operations on float64, and products of int64
	Operations float64          // of products: additions and multiplications
	Bytes      float64          // that kernels read and write, each tensor once
	Uploaded   float64          // bytes from pinned memory, without a wait
}

// Total adds up counts.
func Total(of map[string]int64) (n int64) {
	for _, one := range of {
		n += one
	}
	return n
}

// Reset restarts the counts.
func Reset() { C.psd_reset() }

// Read returns the counts since [Reset].
func Read() (Counts, error) {
	text := C.psd_counts()
	defer C.free(unsafe.Pointer(text))
	c := Counts{Syncs: map[string]int64{}, Kernels: map[string]int64{}, Wide: map[string]int64{}}
	for line := range strings.Lines(C.GoString(text)) {
		what, number, _ := strings.Cut(strings.TrimSpace(line), "\t")
		var n float64
		if _, err := fmt.Sscan(number, &n); err != nil {
			return c, fmt.Errorf("reading the count %q: %w", line, err)
		}
		kind, name, _ := strings.Cut(what, " ")
		switch kind {
		case "sync":
			c.Syncs[name] += int64(n)
		case "kernel":
			c.Kernels[name] += int64(n)
		case "wide":
			c.Wide[name] += int64(n)
		case "product":
			c.Operations += n
		case "memory":
			c.Bytes += n
		case "upload":
			c.Uploaded += n
		default:
			return c, fmt.Errorf("reading the count %q: want a kind that is known", line)
		}
	}
	return c, nil
}
