// Package device starts the stages that compute with tensors. It holds the settings of the device, and what the stages of
// one process share: a worker for tensors and one cache of decoded images.
package device

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/torch"
)

// Settings say where and how tensors are computed.
type Settings struct {
	Name          string `env:"DEVICE" envDefault:"cpu" desc:"cpu, cuda or cuda:N"`
	Threads       int    `env:"TORCH_THREADS" envDefault:"0" desc:"threads of one tensor operation on the CPU; 0: libtorch's choice. Bytes are equal only between runs of equal counts"`
	Precision     string `env:"PRECISION" envDefault:"float32" desc:"what the networks multiply: float32, or bf16 with weights, sums, normalisations, losses and optimiser in float32 (mixed precision)"`
	Deterministic bool   `env:"DETERMINISTIC" envDefault:"true" desc:"use deterministic kernels only (slower on a GPU)"`
}

// precisions are the values of PRECISION.
var precisions = map[string]torch.DType{"float32": torch.Float32, "bf16": torch.BFloat16}

// Validate returns every invalid setting, joined.
func (d Settings) Validate() error {
	var problems []error
	if d.Threads < 0 {
		problems = append(problems, fmt.Errorf("TORCH_THREADS is %d, want 0 or more", d.Threads))
	}
	if d.Name == "" {
		problems = append(problems, errors.New("DEVICE is empty, want cpu, cuda or cuda:N"))
	}
	if _, known := precisions[d.Precision]; !known {
		problems = append(problems, fmt.Errorf("PRECISION is %q, want float32 or bf16", d.Precision))
	}
	return errors.Join(problems...)
}

// NewWorker starts the worker on the device.
func (d Settings) NewWorker() (*torch.Worker, error) {
	w, err := torch.NewWorker(torch.WorkerOptions{
		Device: d.Name, Threads: d.Threads, Deterministic: d.Deterministic, Precision: precisions[d.Precision],
	})
	if err != nil {
		return nil, fmt.Errorf("DEVICE is %q: %w", d.Name, err)
	}
	return w, nil
}
