package device

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/model/torch"
)

func TestFacts(t *testing.T) {
	for name, test := range map[string]struct {
		device    string
		available bool
		want      string
	}{
		"nothing is set":  {"", true, "device cpu"},
		"the processor":   {"cpu", true, "device cpu"},
		"a GPU":           {"cuda:1", true, "device cuda:1, which is there"},
		"no GPU":          {"cuda", false, "device cuda, which is not there"},
		"no known device": {"tpu", true, "device tpu"},
	} {
		got := facts(test.device, func() bool { return test.available })
		if want := []string{"libtorch " + torch.Running() + ", built for " + torch.Version(), test.want}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestInfo(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(Settings{Name: "cpu", Precision: "auto"}.Info())
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d metrics, %v", len(families), err)
	}
	got := fmt.Sprint(families[0].GetName(), " ", families[0].GetMetric()[0].GetGauge().GetValue())
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		got += " " + label.GetName() + "=" + label.GetValue()
	}
	if want := "pairstream_device_info 1 device=cpu libtorch=" + torch.Running() + " precision=float32"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
