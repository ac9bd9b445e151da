package device

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/torch"
)

// Facts are what `--version` says of tensors: the libtorch that is loaded, the one whose headers the program was built with,
// and the device that DEVICE names.
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
