// Package engine holds the settings by which services reach the device and the images, and what they share in one
// process: one worker for tensors, one cache of decoded images.
package engine

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/torch"
)

// Device says where tensors are computed.
type Device struct {
	Name          string `env:"DEVICE" envDefault:"cpu" desc:"cpu, cuda or cuda:N"`
	Threads       int    `env:"TORCH_THREADS" envDefault:"0" desc:"threads of one tensor operation on the CPU; 0: libtorch's choice. Bytes are equal only between runs of equal counts"`
	Deterministic bool   `env:"DETERMINISTIC" envDefault:"true" desc:"use deterministic kernels only (slower on a GPU)"`
}

// Validate joins all problems.
func (d Device) Validate() error {
	if d.Threads < 0 {
		return fmt.Errorf("TORCH_THREADS is %d, want 0 or more", d.Threads)
	}
	if d.Name == "" {
		return errors.New("DEVICE is empty, want cpu, cuda or cuda:N")
	}
	return nil
}

// NewWorker starts the worker on the device.
func (d Device) NewWorker() (*torch.Worker, error) {
	w, err := torch.NewWorker(torch.WorkerOptions{Device: d.Name, Threads: d.Threads, Deterministic: d.Deterministic})
	if err != nil {
		return nil, fmt.Errorf("DEVICE is %q: %w", d.Name, err)
	}
	return w, nil
}
