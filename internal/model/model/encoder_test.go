package model_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// By invariant 4, every input alone, among others, and in other places gives the same bits.
func TestEncoderRowsDependOnNothingElse(t *testing.T) {
	tiny := must.Get(model.Preset("tiny", len(smallVocab())))(t)
	for name, config := range map[string]model.Config{"odd": smallConfig(), "tiny": tiny} {
		for _, threads := range []int{1, 2, 3} {
			for _, batch := range []int{5, 8} {
				t.Run(fmt.Sprintf("%s, %d threads, batch %d", name, threads, batch), func(t *testing.T) {
					w := workerOf(t, threads)
					checkRows(t, newEncoder(t, w, config, batch), 11)
					checkRows(t, newFrozenEncoder(t, w, config, batch), 11)
				})
			}
		}
	}
}

// The same holds where oneDNN is missing.
func TestEncoderRowsDependOnNothingElseWithOtherMultipliers(t *testing.T) {
	for _, multiplier := range []string{"BLAS", "libtorch"} {
		t.Run(multiplier, func(t *testing.T) {
			w, err := torch.NewWorker(torch.WorkerOptions{Threads: 2, Deterministic: true, Multiplier: multiplier})
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(w.Close)
			checkRows(t, newEncoder(t, w, smallConfig(), 5), 11)
			checkRows(t, newFrozenEncoder(t, w, smallConfig(), 5), 11)
		})
	}
}

// By the operations that a GPU runs, other inputs change nothing either, but the place in the batch may.
func TestEncoderRowsDependOnTheirPlaceOnADevice(t *testing.T) {
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true}) {
		t.Run(name, func(t *testing.T) {
			w := must.Get(torch.NewWorker(o))(t)
			t.Cleanup(w.Close)
			checkPlaces(t, newEncoder(t, w, smallConfig(), 5), 5)
		})
	}
}

func checkRows(t *testing.T, e *model.Encoder, n int) {
	t.Helper()
	if !torchtest.OnCPU() {
		t.Skip("libtorch's own operations promise no bits at another place")
	}
	ctx := context.Background()
	r := rng.New(1, "encoder test")
	values := e.Preprocessing().Values()
	pixels := noisePixels(r, n*values)
	captions := make([]string, n)
	for i := range captions {
		captions[i] = caption(r)
	}
	encode := func(order []int) (v, u []float32) {
		t.Helper()
		var p []byte
		var c []string
		for _, i := range order {
			p = append(p, pixels[i*values:(i+1)*values]...)
			c = append(c, captions[i])
		}
		v, err := e.EncodeImages(ctx, p, len(order))
		must.Do(t, err)
		if u, err = e.EncodeTexts(ctx, c); err != nil {
			t.Fatal(err)
		}
		return v, u
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	v, u := encode(all)
	d := e.Dim()
	checkUnit(t, v, d)
	checkUnit(t, u, d)
	orders := [][]int{r.Perm(n), r.Perm(n), {}}
	for i := range n {
		orders = append(orders, []int{i}, []int{(i + 1) % n, i, i})
	}
	for _, order := range orders {
		gotV, gotU := encode(order)
		for place, i := range order {
			if !slices.Equal(gotV[place*d:(place+1)*d], v[i*d:(i+1)*d]) {
				t.Fatalf("image %d at place %d of %v has other bits", i, place, order)
			}
			if !slices.Equal(gotU[place*d:(place+1)*d], u[i*d:(i+1)*d]) {
				t.Fatalf("caption %d at place %d of %v has other bits", i, place, order)
			}
		}
	}
}

// checkPlaces checks what libtorch's own operations keep: an input's bits depend on its place in the batch, and on none
// of the other inputs.
func checkPlaces(t *testing.T, e *model.Encoder, batch int) {
	t.Helper()
	ctx := context.Background()
	r := rng.New(1, "encoder test of places")
	values, d := e.Preprocessing().Values(), e.Dim()
	pixels, text := noisePixels(r, values), caption(r)
	for place := range batch {
		var v, u []float32
		for range 3 {
			all := noisePixels(r, batch*values)
			copy(all[place*values:], pixels)
			captions := make([]string, batch)
			for i := range captions {
				captions[i] = caption(r)
			}
			captions[place] = text
			gotV := must.Get(e.EncodeImages(ctx, all, batch))(t)
			gotU := must.Get(e.EncodeTexts(ctx, captions))(t)
			gotV, gotU = gotV[place*d:(place+1)*d], gotU[place*d:(place+1)*d]
			if v != nil && (!slices.Equal(gotV, v) || !slices.Equal(gotU, u)) {
				t.Fatalf("place %d of %d: other inputs change the bits of this one", place, batch)
			}
			v, u = gotV, gotU
		}
	}
}

func checkUnit(t *testing.T, rows []float32, d int) {
	t.Helper()
	for i := 0; i < len(rows); i += d {
		sum := 0.0
		for _, x := range rows[i : i+d] {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Fatalf("row %d has squared length %v", i/d, sum)
		}
	}
}
