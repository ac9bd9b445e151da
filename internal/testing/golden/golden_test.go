package golden_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// recorder is a testing.TB that remembers whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestClose(t *testing.T) {
	tests := []struct {
		name      string
		got, want []float64
		rel, abs  float64
		fails     bool
	}{
		{"equal", []float64{1, 2}, []float64{1, 2}, 0, 0, false},
		{"relative to the largest magnitude", []float64{0.5, -100}, []float64{0, -100}, 0.01, 0, false},
		{"just over", []float64{1.5, -100}, []float64{0, -100}, 0.01, 0, true},
		{"absolute", []float64{0.5}, []float64{0}, 0, 0.5, false},
		{"not a number", []float64{math.NaN()}, []float64{0}, 1, 1, true},
		{"lengths", []float64{1}, []float64{1, 1}, 1, 1, true},
	}
	for _, test := range tests {
		r := &recorder{TB: t}
		golden.Close(r, test.name, test.got, test.want, test.rel, test.abs)
		if r.failed != test.fails {
			t.Errorf("%s: failed is %v", test.name, r.failed)
		}
	}
}

func TestOpenReadsTheFolderOfTheVariable(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(golden.FolderVariable, folder)
	out := must.Get(os.Create(filepath.Join(folder, "x.safetensors")))(t)
	tensors := []safetensors.NamedTensor{{Name: "a", Tensor: safetensors.FromFloat32s([]float32{3}, 1)}}
	must.Do(t, safetensors.Write(out, tensors, map[string]string{"config": `{"n": 7}`}))
	must.Do(t, out.Close())
	f := golden.Open(t, "x.safetensors")
	var config struct{ N int }
	f.Config(&config)
	if v := f.Float64s("a"); len(v) != 1 || v[0] != 3 || config.N != 7 {
		t.Errorf("a is %v, config %v", v, config)
	}
}

func TestTheRunInFloat64StandsInForTheOther(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(golden.FolderVariable, folder)
	tensors := []safetensors.NamedTensor{
		{Name: "grad64.w", Tensor: safetensors.FromFloat64s([]float64{1}, 1)},
		{Name: "out.both", Tensor: safetensors.FromFloat32s([]float32{2}, 1)},
		{Name: "out64.both", Tensor: safetensors.FromFloat64s([]float64{3}, 1)},
	}
	must.Do(t, safetensors.WriteFile(filepath.Join(folder, "x.safetensors"), tensors, nil))
	f := golden.Open(t, "x.safetensors")
	if w, both := f.Float64s("grad.w")[0], f.Float64s("out.both")[0]; w != 1 || both != 2 {
		t.Errorf("grad.w is %v, want 1; out.both is %v, want 2", w, both)
	}
	for _, name := range []string{"out.w", "grad64.x", "grad.x"} {
		if _, ok := f.Tensor(name); ok {
			t.Errorf("%s was found", name)
		}
	}
}
