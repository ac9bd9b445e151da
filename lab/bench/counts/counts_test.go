package main

import (
	"bytes"
	"maps"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch/testdevice"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The host waits for a GPU where it wants numbers, and nowhere else:
//
//   - the encoder, once for the rows of a batch;
//   - the discriminator, once for all probabilities;
//   - the trainer, for the similarities that choose negatives, for the losses, and for both kinds of features;
//   - an update, once for the length of the gradient;
//   - a rank, once for each of the four runs of its share, and once for the sum.
//
// More waits than these make every step slower. No stage computes in float64, or multiplies int64.
func TestWaitsOfAStage(t *testing.T) {
	if err := testdevice.Install(); err != nil {
		t.Skip(err)
	}
	got := must.Get(measure(t.Context(), "micro", 8))(t)
	for s, want := range map[stage]map[string]int64{
		encoding: {"a copy to the host": 2}, // images, captions
		scoring:  {"a copy to the host": 1},
		learning: {"a copy to the host": 4},
		updating: {"aten::_local_scalar_dense": 1},
		sharing:  {"a copy to the host": 4},
		summing:  {"a copy from pageable memory": 1, "aten::_local_scalar_dense": 1},
	} {
		if c := got[s]; !maps.Equal(c.Syncs, want) || len(c.Wide) > 0 {
			t.Errorf("%s: the host waits for %v, want %v; %v are wide", s, c.Syncs, want, c.Wide)
		}
	}
}

// Counted products are those of the formulas, without what the last of a few layers leaves out: an encoder wants its
// first token alone. More samples take as many kernels, and products and bytes in proportion.
func TestCountedProducts(t *testing.T) {
	if err := testdevice.Install(); err != nil {
		t.Skip(err)
	}
	const n = 8
	small := must.Get(measure(t.Context(), "micro", n))(t)
	large := must.Get(measure(t.Context(), "micro", 2*n))(t)
	c := must.Get(model.Preset("micro", vocabulary))(t)
	want := n * (c.ImageOperations() + c.TextOperations(float64(c.TextTokens)))
	if got := small[encoding].Operations; got > want || got < 0.6*want {
		t.Errorf("encoding takes %g operations, want up to %g", got, want)
	}
	// Images travel to the encoder as bytes, tokens and their masks as int64.
	perPair := float64(3*c.ImageSize*c.ImageSize + 2*8*c.TextTokens)
	if got := large[encoding].Uploaded - small[encoding].Uploaded; got != n*perPair {
		t.Errorf("encoding sends %g bytes for %d more pairs, want %g", got, n, n*perPair)
	}
	for _, s := range stages {
		if a, b := testdevice.Total(small[s].Kernels), testdevice.Total(large[s].Kernels); a != b || a == 0 {
			t.Errorf("%s: %d kernels, and %d for twice the samples", s, a, b)
		}
		if guess := scaled(small[s], large[s], n, 2*n); guess.Operations != large[s].Operations || guess.Bytes != large[s].Bytes {
			t.Errorf("%s: %+v", s, guess)
		}
	}
}

func TestPredictions(t *testing.T) {
	c := testdevice.Counts{Operations: products, Bytes: bandwidth, Kernels: map[string]int64{"k": 125_000}, Syncs: map[string]int64{}}
	if p := predict(c); p.Seconds() != 2 {
		t.Errorf("%+v", p)
	}
	c.Syncs["s"] = 100_000 // 3 s
	if p := predict(c); math.Abs(p.Seconds()-4) > 1e-9 {
		t.Errorf("%+v", p)
	}
	if err := run(t.Context(), []string{"--few", "1"}, new(bytes.Buffer)); err == nil {
		t.Error("a batch of one sample has no negatives")
	}
	if err := run(t.Context(), []string{"--preset", "none"}, new(bytes.Buffer)); err == nil {
		t.Error("a preset that there is not is counted")
	}
}
