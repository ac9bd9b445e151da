package model_test

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/torch"
)

// mixed runs a test on two workers in mixed precision. The second computes as devices other than the CPU do.
func mixed(t *testing.T, run func(t *testing.T, w *torch.Worker)) {
	t.Helper()
	for _, multiplier := range []string{"", "libtorch"} {
		t.Run("multiplier "+multiplier, func(t *testing.T) {
			w, err := torch.NewWorker(torch.WorkerOptions{
				Threads: 2, Deterministic: true, Multiplier: multiplier, Precision: torch.BFloat16,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Close)
			run(t, w)
		})
	}
}

// Mixed precision is near the reference in everything that the networks give.
func TestGoldenALBEFForwardInMixedPrecision(t *testing.T) {
	f := golden.Open(t, "albef_forward.safetensors")
	var config goldenConfig
	f.Config(&config)
	mixed(t, func(t *testing.T, w *torch.Worker) {
		m, err := model.FromFile(context.Background(), w, f.File, model.LoadOptions{Prefix: "w.", Config: config.model()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		if err := w.Do(context.Background(), func(s *torch.Scope) error {
			for name, got := range albefOutputs(s, m, f, torch.Float32) {
				golden.Close(t, name, got.Float64s(), f.Float64s("out64."+name), mixedTolerance, 0)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// mixedTolerance is twelve roundings to bfloat16, relative to the largest value of a result.
const mixedTolerance = 12.0 / 512

// Embeddings in mixed precision agree with those of float32 within a cosine of 0.999. They are unit vectors whose bits
// depend on nothing else (invariant 4).
func TestEncoderInMixedPrecision(t *testing.T) {
	tiny, err := model.Preset("tiny", len(smallVocab()))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for name, config := range map[string]model.Config{"odd": smallConfig(), "tiny": tiny} {
		t.Run(name, func(t *testing.T) {
			r := rng.New(1, "mixed encoder test")
			full := newEncoder(t, workerOf(t, 2), config, 5)
			const n = 7
			pixels := noise(r, n*full.Preprocessing().Values())
			var captions []string
			for range n {
				captions = append(captions, caption(r))
			}
			embed := func(e *model.Encoder) (v, u []float32) {
				v, err := e.EncodeImages(ctx, pixels, n)
				if err == nil {
					u, err = e.EncodeTexts(ctx, captions)
				}
				if err != nil {
					t.Fatal(err)
				}
				return v, u
			}
			v, u := embed(full)
			mixed(t, func(t *testing.T, w *torch.Worker) {
				e := newEncoder(t, w, config, 5)
				if e.Fingerprint() != full.Fingerprint() {
					t.Error("the same weights have another fingerprint")
				}
				gotV, gotU := embed(e)
				checkCosines(t, "image", gotV, v, e.Dim())
				checkCosines(t, "caption", gotU, u, e.Dim())
				if w.Multiplier() != "libtorch" { // libtorch promises no bits
					checkRows(t, e, 11)
				}
			})
		})
	}
}

func checkCosines(t *testing.T, what string, got, want []float32, d int) {
	t.Helper()
	same := true
	for i := 0; i < len(want); i += d {
		dot := 0.0
		for k := i; k < i+d; k++ {
			dot += float64(got[k]) * float64(want[k])
			same = same && got[k] == want[k]
		}
		if dot < 0.999 {
			t.Errorf("%s %d: the cosine between both precisions is %.5f", what, i/d, dot)
		}
	}
	if same {
		t.Errorf("%ss have the bits of float32", what)
	}
}
