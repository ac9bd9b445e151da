package device_test

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestDeviceIsChecked(t *testing.T) {
	good := device.Settings{Name: "cpu", Precision: "float32"}
	for want, change := range map[string]func(*device.Settings){
		"":                             func(*device.Settings) {},
		"TORCH_THREADS is -1":          func(d *device.Settings) { d.Threads = -1 },
		"DEVICE is empty":              func(d *device.Settings) { d.Name = "" },
		`PRECISION is "fp16"`:          func(d *device.Settings) { d.Precision = "fp16" },
		"want auto, float32, tf32":     func(d *device.Settings) { d.Precision = "" },
		"only GPUs have TensorFloat":   func(d *device.Settings) { d.Precision = "tf32" },
		"DEVICE is empty, want cpu, c": func(d *device.Settings) { d.Name, d.Precision = "", "BF16" },
	} {
		d := good
		change(&d)
		err := d.Validate()
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", d, err, want)
		}
	}
}

func TestPrecisionByDefault(t *testing.T) {
	for name, want := range map[string]string{"cpu": "float32", "cuda": "bf16", "cuda:1": "bf16"} {
		if got := device.PrecisionOf(device.Settings{Name: name, Precision: "auto"}); got != want {
			t.Errorf("PRECISION=auto is %s with DEVICE=%s, want %s", got, name, want)
		}
		if err := (device.Settings{Name: name, Precision: "tf32"}).Validate(); (err == nil) != (name != "cpu") {
			t.Errorf("PRECISION=tf32 with DEVICE=%s: %v", name, err)
		}
	}
}

func TestPrecisionReachesTheWorker(t *testing.T) {
	for value, want := range map[string]torch.DType{"auto": torch.Float32, "float32": torch.Float32, "bf16": torch.BFloat16} {
		w := must.Get(device.Settings{Name: "cpu", Threads: 1, Precision: value}.NewWorker())(t)
		if got := w.Precision(); got != want {
			t.Errorf("PRECISION=%s multiplies %s, want %s", value, got, want)
		}
		w.Close()
	}
}
