package torch

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// ErrClosed is returned for work given to a closed worker.
var ErrClosed = errors.New("torch: the worker is closed")

var (
	errNested = errors.New("torch: Do was called from inside Do: use the scope that is at hand")
	errExited = errors.New("torch: the function given to Do ended its goroutine (runtime.Goexit, testing's FailNow)")
)

// WorkerOptions configure where and how a worker computes.
type WorkerOptions struct {
	Device        string // "cpu", "cuda" or "cuda:N"; empty: "cpu"
	Threads       int    // for an operation on the CPU; 0: GOMAXPROCS
	Deterministic bool   // invariant 3
	// Multiplier of matrices on the CPU: "oneDNN", "BLAS" or "libtorch"; empty: the first available one.
	Multiplier string
	// Precision is the type of the factors in linear layers and attention, Float32 or BFloat16. See the package.
	Precision DType
	// TF32 lets a GPU round the factors of float32 products to ten bits (TensorFloat-32). On the CPU it does nothing.
	TF32 bool
	// Portable disables this package's own kernels on the CPU, so that libtorch's operations compute as on a GPU. For
	// tests.
	Portable bool
}

// Worker owns the one operating-system thread that touches tensors. libtorch's gradient mode belongs to the thread that
// sets it, and parallel operations would only compete for the cores. So a process has one worker for each device.
// Everything but device and precision is a setting of the whole process: the last worker to start decides.
type Worker struct {
	options WorkerOptions
	device  *C.char
	jobs    chan job
	quit    chan struct{}
	ended   chan struct{}
	stop    sync.Once

	mu   sync.Mutex
	mark C.int64_t // of the thread
}

type job struct {
	run    func(*Scope) error
	result chan error
}

// prepare applies the settings of the whole process, before the first worker's thread starts.
var prepare = sync.OnceFunc(func() { C.ps_prepare() })

// NewWorker starts a worker.
func NewWorker(o WorkerOptions) (*Worker, error) {
	if o.Device == "" {
		o.Device = "cpu"
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("torch: starting a worker: %d threads, want 0 or more", o.Threads)
	}
	if o.Precision != Float32 && o.Precision != BFloat16 {
		return nil, fmt.Errorf("torch: starting a worker: products of %s, want %s or %s", o.Precision, Float32, BFloat16)
	}
	w := &Worker{
		options: o,
		device:  C.CString(o.Device),
		jobs:    make(chan job),
		quit:    make(chan struct{}),
		ended:   make(chan struct{}),
	}
	prepare()
	ready := make(chan error, 1)
	go w.loop(ready)
	if err := <-ready; err != nil {
		C.free(unsafe.Pointer(w.device))
		return nil, err
	}
	return w, nil
}

// Precision returns the type of the factors in linear layers and attention.
func (w *Worker) Precision() DType { return w.options.Precision }

// precision returns the code of the precision for the worker's thread.
func (w *Worker) precision() C.int {
	switch {
	case w.options.Precision == BFloat16:
		return C.PS_IN_BFLOAT16
	case w.options.TF32:
		return C.PS_IN_TF32
	}
	return C.PS_IN_FLOAT32
}

// Device returns the device that the worker was started for.
func (w *Worker) Device() string { return w.options.Device }

// Multiplier returns the library that multiplies matrices on the CPU; see [WorkerOptions]. If it is "BLAS", [BLAS]
// names it.
func (w *Worker) Multiplier() string { return C.GoString(C.ps_multiplier()) }

// Close waits for the work in hand and ends the thread. Work that has not begun gets [ErrClosed].
func (w *Worker) Close() {
	w.stop.Do(func() {
		close(w.quit)
		<-w.ended
		C.free(unsafe.Pointer(w.device))
	})
}

// Do runs fn on the worker's thread, after earlier jobs, and frees the tensors of fn's scope. If ctx ends first, fn
// does not run; once begun it runs to its end. Do returns fn's error, or the failure of an operation in it.
func (w *Worker) Do(ctx context.Context, fn func(*Scope) error) error {
	if w.onThread() {
		return errNested
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j := job{run: labelled(ctx, timed(ctx, fn)), result: make(chan error, 1)}
	select {
	case w.jobs <- j:
		return <-j.result
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return ErrClosed
	}
}

func (w *Worker) onThread() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return C.ps_thread_mark() == w.mark
}

func (w *Worker) setMark(mark C.int64_t) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = mark
}

// loop locks its thread. The thread ends with the goroutine, which never unlocks it.
func (w *Worker) loop(ready chan<- error) {
	runtime.LockOSThread()
	w.setMark(C.ps_thread_mark())
	deterministic := C.int(0)
	if w.options.Deterministic {
		deterministic = 1
	}
	multiplier := C.CString(w.options.Multiplier)
	err := failure("device "+w.options.Device, C.ps_init(w.device, C.int(w.options.Threads), deterministic, multiplier))
	C.free(unsafe.Pointer(multiplier))
	if err != nil {
		w.setMark(0)
		ready <- err
		return
	}
	C.ps_set_precision(w.precision())
	C.ps_set_portable(C.int(flag(w.options.Portable)))
	ready <- nil
	for {
		select {
		case j := <-w.jobs:
			w.serve(j)
		case <-w.quit:
			w.setMark(0) // the next thread may get the same number
			close(w.ended)
			return
		}
	}
}

// serve runs one job. A job that ends its goroutine also ends the thread. A new goroutine then continues, so that the
// caller gets an error and other callers do not wait forever.
func (w *Worker) serve(j job) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if bug := recover(); bug != nil {
			panic(bug)
		}
		w.setMark(0)
		j.result <- errExited
		go w.loop(make(chan error, 1))
	}()
	s := &Scope{worker: w}
	err := s.run(j.run)
	returned = true
	j.result <- err
}
