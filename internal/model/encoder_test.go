package model_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/torch"
)

// By invariant 4, every input alone, among others, and in other places gives the same bits.
func TestEncoderRowsDependOnNothingElse(t *testing.T) {
	tiny, err := model.Preset("tiny", len(smallVocab()))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]model.Config{"odd": smallConfig(), "tiny": tiny} {
		for _, threads := range []int{1, 2, 3} {
			for _, batch := range []int{5, 8} {
				t.Run(fmt.Sprintf("%s, %d threads, batch %d", name, threads, batch), func(t *testing.T) {
					w := workerOf(t, threads)
					checkRows(t, newEncoder(t, w, config, batch), 11)
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
		})
	}
}

func checkRows(t *testing.T, e *model.Encoder, n int) {
	t.Helper()
	ctx := context.Background()
	r := rng.New(1, "encoder test")
	values := e.Preprocessing().Values()
	pixels := noise(r, n*values)
	captions := make([]string, n)
	for i := range captions {
		captions[i] = caption(r)
	}
	encode := func(order []int) (v, u []float32) {
		t.Helper()
		var p []float32
		var c []string
		for _, i := range order {
			p = append(p, pixels[i*values:(i+1)*values]...)
			c = append(c, captions[i])
		}
		v, err := e.EncodeImages(ctx, p, len(order))
		if err != nil {
			t.Fatal(err)
		}
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
