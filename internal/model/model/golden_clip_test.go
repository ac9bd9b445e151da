package model_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// goldenCLIP is how the reference vectors describe their CLIP.
type goldenCLIP struct {
	Embed, Res, Vlayers, Vwidth, Patch, Vheads, Ctx, Vocab, Twidth, Theads, Tlayers int
}

func (g goldenCLIP) model() *model.CLIPConfig {
	return &model.CLIPConfig{
		ImageSize: g.Res, PatchSize: g.Patch, VisionDim: g.Vwidth, VisionDepth: g.Vlayers, VisionHeads: g.Vheads,
		VisionMLP: 4 * g.Vwidth, TextHidden: g.Twidth, TextLayers: g.Tlayers, TextHeads: g.Theads, TextMLP: 4 * g.Twidth,
		VocabSize: g.Vocab, Positions: g.Ctx, EmbedDim: g.Embed,
	}
}

func TestGoldenCLIPForward(t *testing.T) {
	f := golden.Open(t, "clip_forward.safetensors")
	var config goldenCLIP
	f.Config(&config)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			w := worker(t)
			m := must.Get(model.LoadCLIP(context.Background(), w, golden.Path(t, "clip_forward.safetensors"),
				model.CLIPOptions{Prefix: "w.", Config: config.model(), DType: p.dtype}))(t)
			defer m.Free()
			for _, name := range f.Names() {
				if strings.HasPrefix(name, "w.") {
					f.Loaded("", name) // LoadCLIP refuses a file that has too few
				}
			}
			scale := math.Exp(f.Float64s("w.logit_scale")[0])
			must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
				image := m.Image(s, floats(s, f, "in.image", p.dtype))
				text := m.Text(s, ints(s, f, "in.input_ids"))
				v, u := s.Normalize(image, -1, 1e-12), s.Normalize(text, -1, 1e-12)
				for name, got := range map[string]*torch.Tensor{
					"image_embeds":     image,
					"text_embeds":      text,
					"image_feat":       v,
					"text_feat":        u,
					"logits_per_image": s.MulScalar(s.MatMul(v, s.Transpose(u, 0, 1)), scale),
				} {
					golden.Close(t, name, got.Float64s(), f.Float64s(p.out+name), p.tolerance, 0)
				}
				return nil
			}))
		})
	}
}

// The shapes alone give the same configuration except for the heads.
func TestGoldenCLIPConfigurationFromShapes(t *testing.T) {
	f := golden.Open(t, "clip_forward.safetensors")
	var config goldenCLIP
	f.Config(&config)
	w := worker(t)
	m := must.Get(model.LoadCLIP(context.Background(), w, golden.Path(t, "clip_forward.safetensors"), model.CLIPOptions{Prefix: "w."}))(t)
	defer m.Free()
	want := *config.model()
	got := m.Config
	got.VisionHeads, got.TextHeads = want.VisionHeads, want.TextHeads
	if got != want {
		t.Errorf("configuration %+v, want %+v", got, want)
	}
}
