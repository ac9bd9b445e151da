package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func newWorker(t testing.TB, threads int) *torch.Worker {
	t.Helper()
	return torchtest.NewWorker(t, torch.WorkerOptions{Threads: threads, Deterministic: true})
}

func workerOf(t testing.TB, o torch.WorkerOptions) *torch.Worker {
	t.Helper()
	w := must.Get(torch.NewWorker(o))(t)
	t.Cleanup(w.Close)
	return w
}

// engines returns engines with tiles of several sizes, so that tests cross few and many edges, and with products as a
// GPU rounds them.
func engines(w *torch.Worker) map[string]*Engine {
	out := map[string]*Engine{}
	for _, c := range []struct {
		o      Options
		halves bool
	}{{Options{}, false}, {Options{Rows: 37, Columns: 53}, false}, {Options{Rows: 64, Columns: 96}, true}, {Options{Rows: 150, Columns: 31}, true}} {
		e := New(w, c.o)
		e.halves = c.halves
		out[fmt.Sprintf("tiles of %d x %d, float16 %v", c.o.Rows, c.o.Columns, c.halves)] = e
	}
	return out
}

func same(t *testing.T, what string, got, want []int32, width int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			row := i / width
			t.Fatalf("%s of %d: got %v, want %v", what, row, got[row*width:(row+1)*width], want[row*width:(row+1)*width])
		}
	}
}

// leaves runs a test and expects the device to be left as it was.
func leaves(t *testing.T, run func()) {
	t.Helper()
	before := torch.Live()
	run()
	if after := torch.Live(); after != before {
		t.Errorf("%d handles live after, %d before", after, before)
	}
}

func sameResult(t *testing.T, got, want knn.Result, p knn.Params) {
	t.Helper()
	same(t, "v2t", got.V2T, want.V2T, p.K)
	same(t, "v2v", got.V2V, want.V2V, p.K1)
	same(t, "se", got.SE, want.SE, p.K1)
}

func TestNeighborsAreTheReferences(t *testing.T) {
	all := engines(newWorker(t, 1))
	for _, g := range knntest.Groups() {
		want, err := (reference.Engine{}).Neighbors(context.Background(), g.V, g.T, g.P)
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		for name, e := range all {
			t.Run(g.Name+"/"+name, func(t *testing.T) {
				leaves(t, func() {
					got := must.Get(e.Neighbors(context.Background(), g.V, g.T, g.P))(t)
					sameResult(t, got, want, g.P)
				})
			})
		}
	}
}

// peakBytes returns the largest memory that this process has had.
func peakBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib := must.Get(strconv.ParseInt(number, 10, 64))(t)
	return kib << 10
}

// TestMemoryIsThatOfTiles has a group whose products would take 576 MB, twice.
func TestMemoryIsThatOfTiles(t *testing.T) {
	const n, dim = 12_000, 4
	rows := knntest.Halves(knntest.UnitRows(rng.New(8, "memory"), n, dim, 40, 0.1), dim)
	e := New(newWorker(t, 1), Options{})
	before := peakBytes(t)
	must.Get(e.Neighbors(context.Background(), rows, rows, knn.Params{K: 10, K1: 5, K2: 500}))(t)
	if took := peakBytes(t) - before; took > n*n*4/3 {
		t.Errorf("a group of %d took %d MiB, and a matrix of its products would take %d", n, took>>20, n*n*4>>20)
	}
}

// TestNeighborsAcrossTiles is too large for the reference, so package cpu gives the answer.
func TestNeighborsAcrossTiles(t *testing.T) {
	const n, dim = 2100, 20
	r := rng.New(2, "blocks")
	v, texts := knntest.UnitRows(r, n, dim, 40, 0.6), knntest.UnitRows(r, n, dim, 40, 0.6)
	for i := 1000 * dim; i < 1100*dim; i++ { // equal rows on both sides of an edge
		v[i] = v[1000*dim+i%dim]
	}
	images, captions := knntest.Halves(v, dim), knntest.Halves(texts, dim)
	owners := make([]int32, n)
	for i := range owners {
		owners[i] = int32(i / 3)
		if i > n/2 {
			owners[i] = -int32(i % 7) // hundreds of each: compared on the device
		}
	}
	w := newWorker(t, 1)
	for name, p := range map[string]knn.Params{
		"small k2":       {K: 10, K1: 5, K2: 20},
		"usual":          {K: 10, K1: 5, K2: 300},
		"k2 above group": {K: 2, K1: 3, K2: n + 1},
		"owners":         {K: 4, K1: 9, K2: 400, Owner: owners},
	} {
		want := must.Get((cpu.Engine{}).Neighbors(context.Background(), images, captions, p))(t)
		for _, c := range []struct {
			o      Options
			halves bool
		}{{Options{}, true}, {Options{Rows: 512, Columns: 512}, false}, {Options{Rows: 700, Columns: 1030}, true}} {
			t.Run(fmt.Sprintf("%s/tiles of %d x %d, float16 %v", name, c.o.Rows, c.o.Columns, c.halves), func(t *testing.T) {
				e := New(w, c.o)
				e.halves = c.halves
				p.Threads = 1 + c.o.Rows%3
				got := must.Get(e.Neighbors(context.Background(), images, captions, p))(t)
				sameResult(t, got, want, p)
			})
		}
	}
}

func TestNeighborsRefusesBadInput(t *testing.T) {
	rows := knntest.UnitRows(rng.New(3, "bad"), 10, 8, 1, 0)
	good := knn.FloatMatrix(rows, 8)
	nan, long := slices.Clone(rows), slices.Clone(rows)
	nan[42] = float32(math.NaN())
	for i := range long {
		long[i] *= 1e20
	}
	p := knn.Params{K: 1, K1: 1, K2: 1}
	refused := knntest.Refused()
	refused["a text is none"] = knntest.Group{V: good, T: knn.FloatMatrix(nan, 8), P: p}
	refused["too long"] = knntest.Group{V: knn.FloatMatrix(long, 8), T: good, P: p}
	e := New(newWorker(t, 1), Options{})
	for name, g := range refused {
		leaves(t, func() {
			if _, err := e.Neighbors(context.Background(), g.V, g.T, g.P); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}

// TestLongRowsAreNotRounded has products beyond float16's largest value.
func TestLongRowsAreNotRounded(t *testing.T) {
	rows := knntest.UnitRows(rng.New(4, "long"), 90, 12, 3, 0.5)
	for i := range rows {
		rows[i] *= 3000
	}
	m, p := knntest.Halves(rows, 12), knn.Params{K: 4, K1: 3, K2: 9}
	want := must.Get((reference.Engine{}).Neighbors(context.Background(), m, m, p))(t)
	for name, e := range engines(newWorker(t, 1)) {
		got, err := e.Neighbors(context.Background(), m, m, p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sameResult(t, got, want, p)
	}
}

// TestPrecisionIsTheNetworks computes on a worker whose networks multiply bfloat16.
func TestPrecisionIsTheNetworks(t *testing.T) {
	w := workerOf(t, torch.WorkerOptions{Threads: 1, Precision: torch.BFloat16})
	m := knntest.Halves(knntest.UnitRows(rng.New(9, "precision"), 200, 24, 4, 0.6), 24)
	p, q := knn.Params{K: 4, K1: 3, K2: 9}, knn.KMeansParams{Init: knntest.Starts(1, 200, 9), Iterations: 5}
	e := New(w, Options{})
	got := must.Get(e.Neighbors(context.Background(), m, m, p))(t)
	want := must.Get((cpu.Engine{}).Neighbors(context.Background(), m, m, p))(t)
	sameResult(t, got, want, p)
	clusters := must.Get(e.KMeans(context.Background(), m, q))(t)
	others := must.Get((cpu.Engine{}).KMeans(context.Background(), m, q))(t)
	same(t, "assignments", clusters.Assign, others.Assign, 200)
}

// TestAWorseDeviceIsNoticed rounds products to float16 and says that they are float32's.
func TestAWorseDeviceIsNoticed(t *testing.T) {
	rows := knntest.Halves(knntest.UnitRows(rng.New(5, "worse"), 200, 32, 3, 0.5), 32)
	e := New(workerOf(t, torch.WorkerOptions{Threads: 1}), Options{})
	images := must.Get(e.upload(context.Background(), rows, 0))(t)
	defer images.free()
	a := must.Get(e.arithmetic(32, true, images.norm, images.norm))(t)
	a.round = true
	q := &search{e: e, x: images, y: images, a: a, k: 5, columns: make([]int32, 200*5)}
	if err := q.run(context.Background()); err == nil {
		t.Error("products were further from their scores than the bound, without an error")
	}
}

func TestEndsWhenAsked(t *testing.T) {
	rows := knntest.Halves(knntest.UnitRows(rng.New(6, "stop"), 100, 8, 1, 0), 8)
	e := New(newWorker(t, 1), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	leaves(t, func() {
		if _, err := e.Neighbors(ctx, rows, rows, knn.Params{K: 1, K1: 1, K2: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the context was canceled", err)
		}
		if _, err := e.KMeans(ctx, rows, knn.KMeansParams{Init: []int32{0}, Iterations: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the context was canceled", err)
		}
	})
}

// TestAFailureOnTheProcessorEndsTheDevicesWork lets the second job of many fail.
func TestAFailureOnTheProcessorEndsTheDevicesWork(t *testing.T) {
	failure := errors.New("no")
	submitted := 0
	err := overlapped(context.Background(), func(_ context.Context, submit func(job) error) error {
		for {
			if err := submit(func(context.Context) error {
				if submitted++; submitted == 2 {
					return failure
				}
				return nil
			}); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, failure) || submitted != 2 {
		t.Errorf("got %v after %d jobs, want the failure of the second", err, submitted)
	}
}

func TestBoundsAreRoundedOutwards(t *testing.T) {
	for _, x := range []float64{0, 1, 0.1, -0.1, 1e-50, -1e-50, 0.5 + 1e-12, math.Inf(1), math.Inf(-1)} {
		if low, high := float64(below(x)), float64(above(x)); low > x || high < x || math.IsNaN(low) || math.IsNaN(high) {
			t.Errorf("%g is between %g and %g", x, low, high)
		}
	}
	if below(0.25) != 0.25 || above(0.25) != 0.25 {
		t.Error("a float32 value was moved")
	}
}

// TestTheBound compares real products with their scores. The bound must hold, and not by orders of magnitude.
func TestTheBound(t *testing.T) {
	const n, dim = 60, 256
	rows := knntest.UnitRows(rng.New(7, "bound"), n, dim, 4, 0.7)
	w := newWorker(t, 1)
	for name, c := range map[string]struct {
		m       knn.Matrix
		rounded bool
		atMost  float64 // of eps for unit rows, on the processor
	}{
		"float32":             {knn.FloatMatrix(rows, dim), false, 1.6e-5},
		"float16 in float32":  {knntest.Halves(rows, dim), false, 1.6e-5},
		"products in float16": {knntest.Halves(rows, dim), true, 5.2e-4},
	} {
		e := New(w, Options{})
		e.halves = c.rounded
		x := must.Get(e.upload(context.Background(), c.m, 0))(t)
		defer x.free()
		a := must.Get(e.arithmetic(dim, c.m.Halves != nil, x.norm, x.norm))(t)
		if !e.cuda && a.eps > c.atMost {
			t.Errorf("%s: the bound is %g, want at most %g", name, a.eps, c.atMost)
		}
		var values []float32
		must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
			values = a.multiply(s, x, x, block{0, n}, block{0, n}, n, 0).products.Float32s()
			return nil
		}))
		for i := range n {
			for j := range n {
				if err := a.verify(int64(i), int64(j), values[i*n+j], knn.Score(c.m.Row(i, nil), c.m.Row(j, nil))); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
}
