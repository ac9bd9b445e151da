// Package device starts the stages that compute with tensors. It holds the settings of the device, and the resources
// that the stages of one process share: a worker for tensors and one cache of decoded images.
package device

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Settings select where and how tensors are computed.
type Settings struct {
	Name          string `env:"DEVICE" envDefault:"cpu" desc:"cpu, cuda or cuda:N"`
	Threads       int    `env:"TORCH_THREADS" envDefault:"0" desc:"threads of one tensor operation on the CPU; 0: libtorch's choice. Bytes are equal only between runs of equal counts"`
	Precision     string `env:"PRECISION" envDefault:"auto" desc:"what the networks multiply: float32; tf32, which is float32 cut to 10 bits, on a GPU; bf16, with weights, sums, normalisations, losses and optimiser in float32 (mixed precision); auto: bf16 on a GPU, float32 on the CPU"`
	Deterministic bool   `env:"DETERMINISTIC" envDefault:"true" desc:"use deterministic kernels only (slower on a GPU): the same batches then give the same bits; the last bits of an embedding may still depend on its place in the batch"`
}

// The values of PRECISION.
const (
	inAuto     = "auto"
	inFloat32  = "float32"
	inTF32     = "tf32"
	inBFloat16 = "bf16"
)

// onGPU reports whether DEVICE is a GPU.
func (d Settings) onGPU() bool { return d.Name == "cuda" || strings.HasPrefix(d.Name, "cuda:") }

// precision returns PRECISION, or its default on the device.
func (d Settings) precision() string {
	switch {
	case d.Precision != inAuto:
		return d.Precision
	case d.onGPU():
		return inBFloat16
	}
	return inFloat32
}

// Validate returns every invalid setting, joined.
func (d Settings) Validate() error {
	var l invalid.List
	l.Refuse(d.Threads < 0, "TORCH_THREADS is %d, want 0 or more", d.Threads)
	l.Refuse(d.Name == "", "DEVICE is empty, want cpu, cuda or cuda:N")
	switch d.Precision {
	case inAuto, inFloat32, inBFloat16:
	case inTF32:
		l.Refuse(!d.onGPU(), "PRECISION is %q and DEVICE %q, want float32 or bf16: only GPUs have TensorFloat-32", d.Precision, d.Name)
	default:
		l.Add(fmt.Errorf("PRECISION is %q, want auto, float32, tf32 or bf16", d.Precision))
	}
	return l.Err()
}

// NewWorker starts the worker on the device.
func (d Settings) NewWorker() (*torch.Worker, error) {
	o := torch.WorkerOptions{Device: d.Name, Threads: d.Threads, Deterministic: d.Deterministic}
	switch d.precision() {
	case inBFloat16:
		o.Precision = torch.BFloat16
	case inTF32:
		o.TF32 = true
	}
	w, err := torch.NewWorker(o)
	if err != nil {
		return nil, fmt.Errorf("DEVICE is %q: %w", d.Name, err)
	}
	return w, nil
}

// Facts are the output of `--version` about tensors: the loaded libtorch, the one whose headers the program was built
// with, and the device of DEVICE.
func Facts() []string { return facts(os.Getenv("DEVICE"), torch.CUDAAvailable) }

func facts(name string, available func() bool) []string {
	d := Settings{Name: name}
	switch {
	case name == "":
		name = "cpu"
	case d.onGPU() && available():
		name += ", which is there"
	case d.onGPU():
		name += ", which is not there"
	}
	return []string{"libtorch " + torch.Running() + ", built for " + torch.Version(), "device " + name}
}

// Info returns a metric whose labels name the libtorch and the device.
func (d Settings) Info() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pairstream_device_info", Help: "1, with libtorch, DEVICE and the precision that the networks compute in.",
		ConstLabels: prometheus.Labels{"libtorch": torch.Running(), "device": d.Name, "precision": d.precision()},
	})
	info.Set(1)
	return info
}
