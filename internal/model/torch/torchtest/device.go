//go:build testdevice

package torchtest

import (
	"os"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/testdevice"
)

// init installs the device before libtorch is asked for anything.
func init() {
	if os.Getenv(Variable) != testDevice {
		return
	}
	if err := testdevice.Install(); err != nil {
		panic(err)
	}
	onTestDevice = func(o torch.WorkerOptions) torch.WorkerOptions {
		o.Device = testdevice.Name
		return o
	}
}
