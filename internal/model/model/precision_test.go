package model_test

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// mixed runs a test on two workers in mixed precision, one of which is portable. own says whether the package's own
// kernels compute.
func mixed(t *testing.T, run func(t *testing.T, w *torch.Worker, own bool)) {
	t.Helper()
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true, Precision: torch.BFloat16}) {
		t.Run(name, func(t *testing.T) {
			w := must.Get(torch.NewWorker(o))(t)
			t.Cleanup(w.Close)
			run(t, w, name == "device" && torchtest.OnCPU())
		})
	}
}

// mixedBound returns how far a result in mixed precision may be from the exact one, relative to the largest of its
// values. products is the number of matrix products, one after another, that lead to it.
//
// A product rounds both factors to bfloat16, whose unit roundoff u is 2^-8, and sums in float32. For a factor of any
// size the error is uniform within u of the power of two below it. So its relative variance is u^2/3 times the mean of
// 1/x^2 over a mantissa x from 1 to 2, which is (3/8)/ln 2: together 0.18 u^2, and 0.36 u^2 for both factors. The
// errors of the terms of a sum are independent, as are the terms' signs. So a sum has the relative variance of a term,
// however long it is. Sums in float32 add a relative variance of K 2^-48 for K terms, which is less than u^2/10^4 for K
// up to 10^5.
//
// Layers pass relative errors on as they are: normalisation divides value and error alike, and a residual adds a part
// whose error is as large. So P products give a variance of 0.36 u^2 P. Of n values with normal errors, the largest is
// beyond sqrt(2 ln(2n/p)) deviations with probability p; p is 10^-4.
func mixedBound(products, values int) float64 {
	const unitRoundoff, variance, p = 1.0 / 256, 0.36, 1e-4
	return unitRoundoff * math.Sqrt(variance*float64(products)) * math.Sqrt(2*math.Log(2*float64(values)/p))
}

// productsTo counts the products on the longest way to each result.
func productsTo(c model.Config) map[string]int {
	const (
		layer = 6 // queries with keys and values, scores, mix, output, and the two of the feed-forward part
		cross = 5 // queries, keys and values, scores, mix, output
	)
	vision, text := 1+layer*c.VisionDepth, layer*c.FusionLayer
	fusion := vision + text + (layer+cross)*(c.TextLayers-c.FusionLayer)
	return map[string]int{
		"image_embeds": vision, "image_feat": vision + 1, "text_embeds": text, "text_feat": text + 1,
		"sim_i2t": vision + text + 3, "sim_t2i": vision + text + 3,
		"fusion_last_hidden": fusion, "itm_logits": fusion + 1, "mlm_logits": fusion + 2, "mlm_loss": fusion + 2,
	}
}

// Mixed precision is near the reference in everything that the networks give.
func TestGoldenALBEFForwardInMixedPrecision(t *testing.T) {
	f := golden.Open(t, "albef_forward.safetensors")
	var config goldenConfig
	f.Config(&config)
	products := productsTo(*config.model())
	mixed(t, func(t *testing.T, w *torch.Worker, _ bool) {
		m := must.Get(model.FromFile(context.Background(), w, f.File, model.LoadOptions{Prefix: "w.", Config: config.model()}))(t)
		defer m.Free()
		must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
			for name, got := range albefOutputs(s, m, f, torch.Float32) {
				want := f.Float64s("out64." + name)
				golden.Close(t, name, got.Float64s(), want, mixedBound(products[name], len(want)), 0)
			}
			return nil
		}))
	})
}

// The bound holds for networks of many sizes, and it is no larger than it must be: some result comes near it.
func TestMixedPrecisionIsWithinItsBound(t *testing.T) {
	const n = 6
	full := workerOf(t, 2)
	mixed(t, func(t *testing.T, w *torch.Worker, _ bool) {
		nearest := 0.0
		for k := range uint64(8) {
			r := rng.New(k, "sizes")
			heads := 1 + r.IntN(3)
			c := model.Config{
				ImageSize: 4 * (3 + r.IntN(5)), PatchSize: 4, VisionDim: 16 * heads * (1 + r.IntN(3)), VisionDepth: 1 + r.IntN(5), VisionHeads: heads,
				TextHidden: 16 * heads * (1 + r.IntN(3)), TextHeads: heads, TextIntermediate: 32 + r.IntN(200),
				VocabSize: 60 + r.IntN(100), MaxPositions: 12, EmbedDim: 8 + r.IntN(40), TextTokens: 9,
			}
			c.FusionLayer = 1 + r.IntN(4)
			c.TextLayers = c.FusionLayer + 1 + r.IntN(4)
			weights := strongWeights(t, full, c, k)
			want, got := outputsOf(t, full, weights, k, n), outputsOf(t, w, weights, k, n)
			for name, products := range productsTo(c) {
				exact := want[name]
				if exact == nil {
					continue // the loss, which needs labels
				}
				scale, off := 0.0, 0.0
				for i, x := range exact {
					scale, off = max(scale, math.Abs(x)), max(off, math.Abs(got[name][i]-x))
				}
				share := off / (scale * mixedBound(products, len(exact)))
				nearest = max(nearest, share)
				if !(share <= 1) {
					t.Errorf("sizes %d: %s is off by %.3g of the largest value, which is %.2f of the bound", k, name, off/scale, share)
				}
			}
		}
		if nearest < 0.2 {
			t.Errorf("no result is off by more than %.2f of the bound", nearest)
		}
	})
}

// strongWeights writes random weights as large as trained ones: what a matrix gives is as large as what it takes.
func strongWeights(t *testing.T, w *torch.Worker, c model.Config, seed uint64) string {
	t.Helper()
	tensors := must.Get(newModel(t, w, c, seed).Export(t.Context()))(t)
	for i, x := range tensors {
		if len(x.Shape) < 2 || !strings.HasSuffix(x.Name, ".weight") || strings.Contains(x.Name, "embeddings") {
			continue
		}
		r := rng.New(seed, "weights", int64(i))
		values := noise(r, x.Len())
		for k := range values {
			values[k] /= float32(math.Sqrt(float64(len(values)) / float64(x.Shape[0])))
		}
		tensors[i].Tensor = safetensors.FromFloat32s(values, x.Shape...)
	}
	config := must.Get(json.Marshal(c))(t)
	path := filepath.Join(t.TempDir(), "weights")
	must.Do(t, safetensors.WriteFile(path, tensors, map[string]string{"pairstream.config": string(config)}))
	return path
}

// outputsOf loads a network and runs it on n pairs.
func outputsOf(t *testing.T, w *torch.Worker, weights string, seed uint64, n int) map[string][]float64 {
	t.Helper()
	m := must.Get(model.Load(t.Context(), w, weights, model.LoadOptions{Frozen: true}))(t)
	defer m.Free()
	return outputs(t, w, m, seed, n)
}

// Products read the weights as they are, also where somebody has changed them, as those of a momentum encoder.
func TestChangedWeightsAreRead(t *testing.T) {
	full := workerOf(t, 2)
	mixed(t, func(t *testing.T, w *torch.Worker, _ bool) {
		load := func(seed uint64) *model.Model {
			m := must.Get(model.Load(t.Context(), w, strongWeights(t, full, smallConfig(), seed), model.LoadOptions{}))(t)
			t.Cleanup(m.Free)
			return m
		}
		changed, other := load(1), load(2)
		must.Do(t, w.Do(t.Context(), func(*torch.Scope) error {
			for i, p := range changed.Params() {
				torch.AverageAll([]*torch.Tensor{p.Tensor}, []*torch.Tensor{other.Params()[i].Tensor}, 0)
			}
			return nil
		}))
		want := outputs(t, w, other, 3, 2)
		for name, got := range outputs(t, w, changed, 3, 2) {
			if !slices.Equal(got, want[name]) {
				t.Errorf("%s is not that of the weights", name)
			}
		}
	})
}

// outputs runs a network on n pairs.
func outputs(t *testing.T, w *torch.Worker, m *model.Model, seed uint64, n int) map[string][]float64 {
	t.Helper()
	c := m.Config
	r := rng.New(seed, "inputs")
	pixels := noise(r, n*3*c.ImageSize*c.ImageSize)
	ids, masked, mask := make([]int64, n*c.TextTokens), make([]int64, n*c.TextTokens), make([]int64, n*c.TextTokens)
	for i := range ids {
		ids[i], masked[i], mask[i] = int64(r.IntN(c.VocabSize)), int64(r.IntN(c.VocabSize)), 1
	}
	out := map[string][]float64{}
	must.Do(t, w.Do(t.Context(), func(s *torch.Scope) error {
		s.NoGrad(func() {
			side, rows, l := int64(c.ImageSize), int64(n), int64(c.TextTokens)
			for name, x := range networkOutputs(s, m, s.Float32s(pixels, rows, 3, side, side), s.Int64s(ids, rows, l), s.Int64s(mask, rows, l), s.Int64s(masked, rows, l)) {
				out[name] = x.Float64s()
			}
		})
		return nil
	}))
	return out
}

// Embeddings in mixed precision agree with those of float32 within a cosine of 0.999. They are unit vectors whose bits
// depend on nothing else (invariant 4).
func TestEncoderInMixedPrecision(t *testing.T) {
	tiny := must.Get(model.Preset("tiny", len(smallVocab())))(t)
	ctx := context.Background()
	for name, config := range map[string]model.Config{"odd": smallConfig(), "tiny": tiny} {
		t.Run(name, func(t *testing.T) {
			r := rng.New(1, "mixed encoder test")
			full := newEncoder(t, workerOf(t, 2), config, 5)
			const n = 7
			pixels := noisePixels(r, n*full.Preprocessing().Values())
			var captions []string
			for range n {
				captions = append(captions, caption(r))
			}
			embed := func(e *model.Encoder) (v, u []float32) {
				v, err := e.EncodeImages(ctx, pixels, n)
				if err == nil {
					u, err = e.EncodeTexts(ctx, captions)
				}
				must.Do(t, err)
				return v, u
			}
			v, u := embed(full)
			mixed(t, func(t *testing.T, w *torch.Worker, own bool) {
				e := newEncoder(t, w, config, 5)
				if e.Fingerprint() != full.Fingerprint() {
					t.Error("the same weights have another fingerprint")
				}
				gotV, gotU := embed(e)
				checkCosines(t, "image", gotV, v, e.Dim())
				checkCosines(t, "caption", gotU, u, e.Dim())
				if checkPlaces(t, e, 5); own {
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
