package model_test

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// goldenConfig is how the reference vectors describe their model.
type goldenConfig struct {
	Image, Patch, Vdim, Vdepth, Vheads                         int
	Hidden, Layers, Fusion, Heads, Inter, Vocab, Maxpos, Embed int
	T                                                          int
}

func (g goldenConfig) model() *model.Config {
	return &model.Config{
		ImageSize: g.Image, PatchSize: g.Patch, VisionDim: g.Vdim, VisionDepth: g.Vdepth, VisionHeads: g.Vheads,
		TextHidden: g.Hidden, TextLayers: g.Layers, FusionLayer: g.Fusion, TextHeads: g.Heads, TextIntermediate: g.Inter,
		VocabSize: g.Vocab, MaxPositions: g.Maxpos, EmbedDim: g.Embed, TextTokens: g.T,
	}
}

// worker returns a deterministic worker, and checks at the end of the test that all its handles were freed.
func worker(t testing.TB) *torch.Worker {
	t.Helper()
	return workerOf(t, 2)
}

func workerOf(t testing.TB, threads int) *torch.Worker {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: threads, Deterministic: true})))(t)
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d handles were not given back", n)
		}
	})
	return w
}

// floats puts a floating-point tensor of the reference vectors into a scope, in the model's type.
func floats(s *torch.Scope, f *golden.File, name string, dtype torch.DType) *torch.Tensor {
	return s.To(s.Float64s(f.Float64s(name), f.Must(name).Shape...), dtype)
}

func ints(s *torch.Scope, f *golden.File, name string) *torch.Tensor {
	return s.Int64s(f.Int64s(name), f.Must(name).Shape...)
}

// precisions are the two runs of the reference and what they allow.
var precisions = []struct {
	dtype     torch.DType
	out       string
	tolerance float64
}{
	{torch.Float32, "out.", 1e-5},
	{torch.Float64, "out64.", 1e-10},
}

func TestGoldenALBEFForward(t *testing.T) {
	f := golden.Open(t, "albef_forward.safetensors")
	var config goldenConfig
	f.Config(&config)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			w := worker(t)
			m := must.Get(model.FromFile(context.Background(), w, f.File, model.LoadOptions{
				Prefix: "w.", Config: config.model(), DType: p.dtype,
			}))(t)
			defer m.Free()
			for _, p := range m.Params() {
				f.Loaded("w.", p.Name)
			}
			must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
				for name, got := range albefOutputs(s, m, f, p.dtype) {
					golden.Close(t, name, got.Float64s(), f.Float64s(p.out+name), p.tolerance, 0)
				}
				return nil
			}))
		})
	}
}

func albefOutputs(s *torch.Scope, m *model.Model, f *golden.File, dtype torch.DType) map[string]*torch.Tensor {
	mask := ints(s, f, "in.attention_mask")
	out := networkOutputs(s, m, floats(s, f, "in.image", dtype), ints(s, f, "in.input_ids"), mask, ints(s, f, "in.mlm_input_ids"))
	flat := s.Reshape(out["mlm_logits"], -1, int64(m.Config.VocabSize))
	out["mlm_loss"] = s.CrossEntropy(flat, s.Reshape(ints(s, f, "in.mlm_labels"), -1), -100)
	return out
}

// networkOutputs returns what the networks make of pairs of images and texts.
func networkOutputs(s *torch.Scope, m *model.Model, pixels, ids, mask, masked *torch.Tensor) map[string]*torch.Tensor {
	images, texts := m.Image(s, pixels), m.Text(s, ids, mask)
	v, t := m.ImageFeature(s, images), m.TextFeature(s, texts)
	similarity := s.Div(s.MatMul(v, s.Transpose(t, 0, 1)), m.Temperature(s))
	fused := m.Fuse(s, texts, mask, images)
	return map[string]*torch.Tensor{
		"image_embeds":       images,
		"text_embeds":        texts,
		"image_feat":         v,
		"text_feat":          t,
		"sim_i2t":            similarity,
		"sim_t2i":            s.Transpose(similarity, 0, 1),
		"fusion_last_hidden": fused,
		"itm_logits":         m.MatchLogits(s, fused),
		"mlm_logits":         m.MaskedLogits(s, masked, mask, images),
	}
}

// itm_hard has negatives: here the pairs that share texts and images are scored at once.
func TestGoldenITMPairs(t *testing.T) {
	f := golden.Open(t, "itm_hard.safetensors")
	var config goldenConfig
	f.Config(&config)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			w := worker(t)
			m := must.Get(model.FromFile(context.Background(), w, f.File, model.LoadOptions{
				Prefix: "w.", Config: config.model(), DType: p.dtype,
			}))(t)
			defer m.Free()
			for _, p := range m.Params() {
				f.Loaded("w.", p.Name)
			}
			hardTexts, hardImages := f.Int64s("out.neg_text_for_image"), f.Int64s("out.neg_image_for_text")
			n := int64(len(hardTexts))
			var own []int64
			for i := range n {
				own = append(own, i)
			}
			texts := append(append(append([]int64(nil), own...), hardTexts...), own...)
			images := append(append(append([]int64(nil), own...), own...), hardImages...)
			must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
				mask := ints(s, f, "in.attention_mask")
				logits := m.MatchPairs(s, m.Text(s, ints(s, f, "in.input_ids"), mask), mask,
					m.View(s, m.Image(s, floats(s, f, "in.image", p.dtype))), texts, images)
				for i, name := range []string{"itm_logits_pos", "itm_logits_i2t_neg", "itm_logits_t2i_neg"} {
					got := s.Narrow(logits, 0, int64(i)*n, n).Float64s()
					golden.Close(t, name, got, f.Float64s(p.out+name), p.tolerance, 0)
				}
				return nil
			}))
		})
	}
}
