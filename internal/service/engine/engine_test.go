package engine_test

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/torch"
)

func TestDeviceIsChecked(t *testing.T) {
	good := engine.Device{Name: "cpu", Precision: "float32"}
	for want, change := range map[string]func(*engine.Device){
		"":                             func(*engine.Device) {},
		"TORCH_THREADS is -1":          func(d *engine.Device) { d.Threads = -1 },
		"DEVICE is empty":              func(d *engine.Device) { d.Name = "" },
		`PRECISION is "fp16"`:          func(d *engine.Device) { d.Precision = "fp16" },
		"want float32 or bf16":         func(d *engine.Device) { d.Precision = "" },
		"DEVICE is empty, want cpu, c": func(d *engine.Device) { d.Name, d.Precision = "", "BF16" },
	} {
		d := good
		change(&d)
		err := d.Validate()
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", d, err, want)
		}
	}
}

func TestPrecisionReachesTheWorker(t *testing.T) {
	for value, want := range map[string]torch.DType{"float32": torch.Float32, "bf16": torch.BFloat16} {
		w, err := engine.Device{Name: "cpu", Threads: 1, Precision: value}.NewWorker()
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Precision(); got != want {
			t.Errorf("PRECISION=%s multiplies %s, want %s", value, got, want)
		}
		w.Close()
	}
}
