// Package torchtest starts the workers of tests, all on the device that one environment variable names.
//
// The variable PAIRSTREAM_TEST_DEVICE is empty or "cpu" for the processor, "cuda" or "cuda:N" for a GPU, and "portable"
// for the processor by way of the operations that a GPU runs. Tests about the processor's own kernels, threads or last
// bits start their workers themselves.
package torchtest

import (
	"os"
	"testing"

	"github.com/pairstream/pairstream/internal/torch"
)

// Variable is the name of the environment variable.
const Variable = "PAIRSTREAM_TEST_DEVICE"

const portable = "portable"

// On returns the options of a worker on the device that the variable names.
func On(o torch.WorkerOptions) torch.WorkerOptions {
	switch name := os.Getenv(Variable); name {
	case portable:
		o.Device, o.Portable = "cpu", true
	default:
		o.Device = name // none is the processor
	}
	return o
}

// Ways returns the options of two workers: on the device that the variable names, and portable.
func Ways(o torch.WorkerOptions) map[string]torch.WorkerOptions {
	other := o
	other.Device, other.Portable = "cpu", true
	return map[string]torch.WorkerOptions{"device": On(o), portable: other}
}

// OnCPU reports whether the tests of this run compute with the processor's own kernels.
func OnCPU() bool {
	name := os.Getenv(Variable)
	return name == "" || name == "cpu"
}

// NewWorker starts a worker for a test, and closes it at the test's end.
func NewWorker(t testing.TB, o torch.WorkerOptions) *torch.Worker {
	t.Helper()
	w, err := torch.NewWorker(On(o))
	if err != nil {
		t.Fatalf("starting a worker (%s is %q): %v", Variable, os.Getenv(Variable), err)
	}
	t.Cleanup(w.Close)
	return w
}
