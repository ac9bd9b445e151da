package trainer

import "github.com/pairstream/pairstream/internal/model/torch"

// tripleContrastive returns TCL's alignment loss, the mean of six terms. It compares image and text with the keys of
// the other modality, those of their own, and the local features of the batch. The first two terms have the targets
// that [ITCOptions.Targets] asks for. The last four terms have hard targets. As in the authors' code the sum is divided
// by 6, and the anchors are the model's own features. All that they are compared with comes from the momentum encoder
// and is constant.
func (t *Trainer) tripleContrastive(s *torch.Scope, f *forward, i2t, t2i direction, alpha float64) *torch.Tensor {
	o := t.options.ITC
	f.simI2I = similarities(s, f.image, f.keys.image, f.temperature)
	f.simT2T = similarities(s, f.text, f.keys.text, f.temperature)
	// A sample's own image, and other samples that show it, are its positives in every modality. Connections are not:
	// Con-D compares an image with a text.
	f.itcTerms = []*torch.Tensor{
		o.half(s, i2t, t2i, alpha),
		o.half(s, t2i, i2t, alpha),
		hardContrastive(s, directionOf(s, f.simI2I, hardTargets(f.samples, f.keys.others, f.picksI2T, ECMOptions{}))),
		hardContrastive(s, directionOf(s, f.simT2T, hardTargets(f.samples, f.keys.others, f.picksT2I, ECMOptions{}))),
		t.localImages(s, f),
		t.localTexts(s, f),
	}
	sum := f.itcTerms[0]
	for _, term := range f.itcTerms[1:] {
		sum = s.Add(sum, term)
	}
	return s.MulScalar(sum, 1.0/float64(len(f.itcTerms)))
}

func hardContrastive(s *torch.Scope, d direction) *torch.Tensor {
	return rowCrossEntropy(s, d.hard, s.LogSoftmax(d.sim, 1))
}

// localImages contrasts every image with the regions of its momentum tokens.
func (t *Trainer) localImages(s *torch.Scope, f *forward) *torch.Tensor {
	var regions *torch.Tensor
	s.NoGrad(func() { regions = t.momentum.model.ImageRegions(s, f.keys.tokens) })
	counts := make([]int, regions.Size(0))
	for i := range counts {
		counts[i] = int(regions.Size(1))
	}
	return localContrastive(s, f.image, regions, f.temperature, counts)
}

// localTexts compares every text with its own momentum tokens behind [CLS]. They include [SEP] but no padding.
func (t *Trainer) localTexts(s *torch.Scope, f *forward) *torch.Tensor {
	if f.keys.hidden.Size(1) < 2 {
		return s.Zeros(f.text.DType()) // every text is [CLS] alone
	}
	var tokens *torch.Tensor
	s.NoGrad(func() { tokens = t.momentum.model.TextTokens(s, f.keys.hidden) })
	counts := make([]int, len(f.texts))
	for i, ids := range f.texts {
		counts[i] = len(ids) - 1
	}
	return localContrastive(s, f.text, tokens, f.temperature, counts)
}

// localContrastive returns the mean over samples of the mean over a sample's local features of -log p. The softmax's
// share p is that of the anchor's similarity with that local feature, against the local features of all other samples.
// locals is [n, k, e], of which sample i has the first counts[i]. The other local features of the sample itself have no
// part.
func localContrastive(s *torch.Scope, anchors, locals, temperature *torch.Tensor, counts []int) *torch.Tensor {
	n, k := locals.Size(0), locals.Size(1)
	sims := similarities(s, anchors, s.Reshape(locals, n*k, -1), temperature) // [n, n*k]
	out := make([]bool, n*n*k)
	share := make([]float64, n*k)
	for i := range n {
		for j := range n {
			for at := range k {
				out[(i*n+j)*k+at] = i == j || at >= int64(counts[j])
			}
		}
		for at := range int64(counts[i]) {
			share[i*k+at] = 1 / float64(counts[i])
		}
	}
	own := s.Transpose(s.Diagonal(s.Reshape(sims, n, n, k)), 0, 1) // [n, k]
	others := s.Unsqueeze(s.MaskedFill(sims, s.Bools(out, n, n*k), outOfRow), 1)
	logits := s.Cat(2, s.Unsqueeze(own, 2), s.Expand(others, n, k, n*k))
	return rowCrossEntropy(s, s.To(s.Float64s(share, n, k), sims.DType()), s.Select(s.LogSoftmax(logits, 2), 2, 0))
}
