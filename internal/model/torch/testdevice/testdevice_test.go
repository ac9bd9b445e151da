package testdevice_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/testdevice"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func newWorker(t *testing.T) *torch.Worker {
	t.Helper()
	if err := testdevice.Install(); err != nil {
		t.Skip(err)
	}
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: testdevice.Name, Threads: 1, Deterministic: true}))(t)
	t.Cleanup(w.Close)
	return w
}

// counting runs fn on the device and returns what it took.
func counting(t *testing.T, w *torch.Worker, fn func(*torch.Scope)) testdevice.Counts {
	t.Helper()
	testdevice.Reset()
	must.Do(t, w.Do(t.Context(), func(s *torch.Scope) error {
		fn(s)
		return nil
	}))
	c := must.Get(testdevice.Read())(t)
	return c
}

func TestTheDeviceComputes(t *testing.T) {
	c := counting(t, newWorker(t), func(s *torch.Scope) {
		x, w := s.Float32s([]float32{1, 2, 3, 4}, 2, 2), s.Float32s([]float32{1, 0, 0, 2}, 2, 2)
		w.SetRequiresGrad(true)
		y := s.MatMul(x, w)
		s.Backward(s.SumAll(y))
		if got := append(y.Float32s(), s.Grad(w).Float32s()...); !slices.Equal(got, []float32{1, 4, 3, 8, 4, 4, 6, 6}) {
			t.Errorf("%v", got)
		}
	})
	if c.Operations != 2*(2*2*2*2) || c.Uploaded != 32 || testdevice.Total(c.Syncs) != 2 || c.Syncs["a copy to the host"] != 2 {
		t.Errorf("%+v", c)
	}
}

func TestWhatIsCounted(t *testing.T) {
	w := newWorker(t)
	for name, c := range map[string]struct {
		do   func(s *torch.Scope)
		sync string
		wide string
	}{
		"a number":          {func(s *torch.Scope) { s.SumAll(s.Full(1, torch.Float32, 3)).Item() }, "aten::_local_scalar_dense", ""},
		"places":            {func(s *torch.Scope) { s.NonZero(s.Full(1, torch.Float32, 3)) }, "aten::nonzero", ""},
		"float64":           {func(s *torch.Scope) { s.Neg(s.Full(1, torch.Float64, 3)) }, "", "aten::neg"},
		"a product":         {func(s *torch.Scope) { x := s.Full(1, torch.Int64, 2, 2); s.MatMul(x, x) }, "", "aten::mm"},
		"nothing to notice": {func(s *torch.Scope) { x := s.Full(1, torch.Float32, 2, 2); s.MatMul(x, s.GELU(x)) }, "", ""},
	} {
		got := counting(t, w, c.do)
		if testdevice.Total(got.Syncs) != got.Syncs[c.sync] || c.sync != "" && got.Syncs[c.sync] != 1 {
			t.Errorf("%s: it waits for %v", name, got.Syncs)
		}
		if c.wide == "" && len(got.Wide) > 0 || c.wide != "" && got.Wide[c.wide] == 0 {
			t.Errorf("%s: %v are wide", name, got.Wide)
		}
	}
}

// A tensor of the processor among those of the device is refused, as on a GPU.
func TestTensorsElsewhere(t *testing.T) {
	device := newWorker(t)
	cpu := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer cpu.Close()
	var there *torch.Tensor
	must.Do(t, cpu.Do(t.Context(), func(s *torch.Scope) error {
		there = s.Keep(s.Full(1, torch.Float32, 2, 2))
		return nil
	}))
	defer there.Free()
	for name, do := range map[string]func(s *torch.Scope, here *torch.Tensor){
		"a sum":     func(s *torch.Scope, here *torch.Tensor) { s.Add(here, there) },
		"a product": func(s *torch.Scope, here *torch.Tensor) { s.MatMul(here, there) },
	} {
		err := device.Do(t.Context(), func(s *torch.Scope) error {
			do(s, s.Full(1, torch.Float32, 2, 2))
			return nil
		})
		if failed := (*torch.Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "to be on the same device") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Lists go to the device and back in one copy each, and backward passes tell of their gradients there as well.
func TestListsTakeOneCopy(t *testing.T) {
	data, shapes := [][]float32{{1, 2, 3, 4}, nil, {5}, {}}, [][]int64{{2, 2}, nil, {}, {0}}
	c := counting(t, newWorker(t), func(s *torch.Scope) {
		all := s.MakeAll(data, shapes)
		if !slices.Equal(all[0].Shape(), shapes[0]) || len(all[2].Shape()) != 0 {
			t.Errorf("shapes %v and %v", all[0].Shape(), all[2].Shape())
		}
		if got := s.ReadAll(all); !slices.EqualFunc(got, data, slices.Equal) || got[1] != nil {
			t.Errorf("%v, want %v", got, data)
		}
	})
	if testdevice.Total(c.Syncs) != 1 || c.Uploaded != 20 {
		t.Errorf("%+v", c)
	}
}

func TestRunsOfGradientsOnTheDevice(t *testing.T) {
	var told [][]float32
	counting(t, newWorker(t), func(s *torch.Scope) {
		w := s.MakeAll([][]float32{{1, 2}, {3, 4}}, [][]int64{{2}, {2}})
		for i := range w {
			w[i] = s.Detach(w[i])
			w[i].SetRequiresGrad(true)
		}
		s.BackwardRuns(s.SumAll(s.Mul(s.Square(w[0]), w[1])), [][]*torch.Tensor{{w[1]}, {w[0]}}, func(run int) {
			told = append(told, s.Grad(w[1-run]).Float32s())
		})
	})
	if want := [][]float32{{1, 4}, {6, 16}}; !slices.EqualFunc(told, want, slices.Equal) {
		t.Errorf("%v, want %v", told, want)
	}
}
