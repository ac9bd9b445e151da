// Package torchtest starts the workers of tests, all on the device that one environment variable names.
//
// The variable PAIRSTREAM_TEST_DEVICE is empty or "cpu" for the processor, "cuda" or "cuda:N" for a GPU, and "portable"
// for the processor by way of the operations that a GPU runs. With the build tag testdevice it may be "testdevice",
// which fails where a GPU would. Tests about the processor's own kernels, threads or last bits start their workers
// themselves.
package torchtest

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// Variable is the name of the environment variable.
const Variable = "PAIRSTREAM_TEST_DEVICE"

const (
	portable   = "portable"
	testDevice = "testdevice"
)

// onTestDevice returns the options of a worker on the device of tests; nil: this program is built without it.
var onTestDevice func(torch.WorkerOptions) torch.WorkerOptions

// On returns the options of a worker on the device that the variable names.
func On(o torch.WorkerOptions) torch.WorkerOptions {
	switch name := os.Getenv(Variable); name {
	case portable:
		o.Device, o.Portable = "cpu", true
	case testDevice:
		if onTestDevice == nil {
			panic(Variable + "=" + testDevice + " needs go test -tags testdevice")
		}
		return onTestDevice(o)
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

// OnGPU reports whether the tests of this run compute on a GPU.
func OnGPU() bool { return strings.HasPrefix(os.Getenv(Variable), "cuda") }

// Same reports whether two values are equal. The processor's own kernels give a row the same bits wherever it stands in
// a tensor. libtorch's operations do not promise that: with them the last bits may differ.
func Same(a, b float32) bool { return a == b || !OnCPU() && math.Abs(float64(a-b)) <= 1e-4 }

// AllSame reports whether the values of two slices are [Same].
func AllSame(a, b []float32) bool { return slices.EqualFunc(a, b, Same) }

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
