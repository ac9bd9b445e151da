package trainer

import (
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
)

// checkAlignment compares the gradients of the alignment loss with respect to features and similarities, and the terms
// that no total shows. Everything else comes from the file, in float64.
func checkAlignment(t *testing.T, s *torch.Scope, v vectors, p precision, c momentumCase, f *forward, alpha string) {
	t.Helper()
	if p.dtype != torch.Float64 {
		return
	}
	with := func(batch, queue string) *torch.Tensor {
		return s.Cat(0, v.matrix(s, p.out+batch), s.Transpose(s.To(v.matrix(s, "in."+queue), torch.Float64), 0, 1))
	}
	image, text := v.variable(s, p.out+"image_feat"), v.variable(s, p.out+"text_feat")
	images, texts := with("image_feat_m", "image_queue"), with("text_feat_m", "text_queue")
	temperature := v.matrix(s, "w.temp")
	hard := hardTargets(f.samples, f.keys.others, f.picksI2T, ECMOptions{})
	way := func(anchors, keys *torch.Tensor, teacher string) direction {
		d := directionOf(s, similarities(s, anchors, keys, temperature), hard)
		if teacher != "" {
			d.teacher = v.matrix(s, p.out+teacher)
		}
		return d
	}
	o, share := ITCOptions{Targets: Distilled}, v.scalar("in."+alpha+".alpha")
	i2t, t2i := way(image, texts, "sim_i2t_m"), way(text, images, "sim_t2i_m")
	terms := []*torch.Tensor{o.half(s, i2t, t2i, share), o.half(s, t2i, i2t, share)}
	if len(c.terms) > len(terms) {
		for name, d := range map[string]direction{"i2i": way(image, images, ""), "t2t": way(text, texts, "")} {
			alone := direction{sim: v.variable(s, p.out+"sim_"+name), hard: d.hard}
			s.Backward(s.MulScalar(hardContrastive(s, alone), 1/float64(len(c.terms))))
			golden.Close(t, "dsim_"+name, s.Grad(alone.sim).Float64s(), v.Float64s(p.out+alpha+".dsim_"+name), 1e-10, 0)
			terms = append(terms, hardContrastive(s, d))
		}
		regions, tokens := v.matrix(s, p.out+"image_feat_m_local"), v.matrix(s, p.out+"text_feat_m_local")
		whole, lengths := make([]int, len(f.texts)), make([]int, len(f.texts))
		for i, ids := range f.texts {
			whole[i], lengths[i] = int(regions.Size(1)), len(ids)-1
		}
		terms = append(terms, localContrastive(s, image, regions, temperature, whole), localContrastive(s, text, tokens, temperature, lengths))
	}
	golden.Close(t, "loss_i2t", terms[0].Float64s(), v.Float64s(p.out+alpha+".loss_i2t"), 1e-10, 0)
	golden.Close(t, "loss_t2i", terms[1].Float64s(), v.Float64s(p.out+alpha+".loss_t2i"), 1e-10, 0)
	sum := terms[0]
	for _, term := range terms[1:] {
		sum = s.Add(sum, term)
	}
	s.Backward(s.MulScalar(sum, 1/float64(len(terms))))
	golden.Close(t, "dimage_feat", s.Grad(image).Float64s(), v.Float64s(p.out+alpha+".dimage_feat"), 1e-8, 1e-12)
	golden.Close(t, "dtext_feat", s.Grad(text).Float64s(), v.Float64s(p.out+alpha+".dtext_feat"), 1e-8, 1e-12)
}

// The similarities of the contrastive vectors are those of their features.
func TestGoldenSimilarities(t *testing.T) {
	v := openVectors(t, "itc_losses.safetensors")
	onWorker(t, func(s *torch.Scope) error {
		temperature := v.matrix(s, "in.temp")
		of := func(anchors, keys string) *torch.Tensor {
			return similarities(s, v.matrix(s, "in."+anchors), v.matrix(s, "in."+keys), temperature)
		}
		for name, got := range map[string]*torch.Tensor{
			"in.sim_i2t": of("image_feat", "text_feat"), "in.sim_t2i": of("text_feat", "image_feat"),
			"mdnq_a0.4.sim_i2t": of("image_feat", "text_feat_m"), "mdnq_a0.4.sim_t2i": of("text_feat", "image_feat_m"),
			"mdnq_a0.4.sim_i2t_m": of("image_feat_m", "text_feat_m"), "mdnq_a0.4.sim_t2i_m": of("text_feat_m", "image_feat_m"),
		} {
			golden.Close(t, name, got.Float64s(), v.Float64s(name), 1e-6, 0) // the features are float32
		}
		return nil
	})
}
