package trainer

import (
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/schemas"
)

const (
	oracleBatches, oracleSamples, oracleQueue, oracleDim = 3, 3, 4, 5
	oracleTau                                            = 0.3
)

// side holds the unit vectors of one modality: features and keys of all samples of a step, and keys of the queue.
type side struct{ features, keys, queue [][]float64 }

func newSide(name string) side {
	r := rng.New(5, name, 0)
	rows := func(n int) (all [][]float64) {
		for range n {
			x, length := make([]float64, oracleDim), 0.0
			for k := range x {
				x[k] = r.NormFloat64()
				length += x[k] * x[k]
			}
			for k := range x {
				x[k] /= math.Sqrt(length)
			}
			all = append(all, x)
		}
		return all
	}
	return side{rows(oracleBatches * oracleSamples), rows(oracleBatches * oracleSamples), rows(oracleQueue)}
}

func flat(rows [][]float64) (all []float64) {
	for _, x := range rows {
		all = append(all, x...)
	}
	return all
}

// softmaxOf returns the softmax of an anchor's similarities with keys.
func softmaxOf(anchor []float64, keys [][]float64) []float64 {
	p, sum := make([]float64, len(keys)), 0.0
	for j, key := range keys {
		dot := 0.0
		for k := range key {
			dot += anchor[k] * key[k]
		}
		p[j] = math.Exp(dot / oracleTau)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p
}

// oracleRow returns the loss of an anchor, and its gradient by the anchor's vector: both from one row of the large
// matrix, whose columns are all samples of the step and then the queue.
func oracleRow(o ITCOptions, anchor, teacher, partner []float64, keys, otherKeys [][]float64, positives []int) (loss float64, grad []float64) {
	p := softmaxOf(anchor, keys)
	target := make([]float64, len(keys))
	for _, j := range positives {
		target[j] += 1 / float64(len(positives))
	}
	mix := func(hard, soft float64, q []float64) {
		for j := range target {
			target[j] = hard*target[j] + soft*q[j]
		}
	}
	switch o.Targets {
	case Consistency:
		mix(1, o.Lambda, softmaxOf(partner, otherKeys))
	case Distilled:
		mix(1-o.Alpha, o.Alpha, softmaxOf(teacher, keys))
	case Smoothed:
		even := make([]float64, len(keys))
		for j := range even {
			even[j] = 1 / float64(len(keys))
		}
		mix(1-o.Alpha, o.Alpha, even)
	case OneHot:
	}
	mass := 0.0
	for j := range target {
		loss -= target[j] * math.Log(p[j])
		mass += target[j]
	}
	grad = make([]float64, oracleDim)
	for j, key := range keys {
		for k := range grad {
			grad[k] += (mass*p[j] - target[j]) * key[k] / oracleTau
		}
	}
	return loss, grad
}

// ITC of a batch in the middle of a step is that of its rows in the matrix of all, in float64.
func TestGatheredLossIsThatOfTheLargeMatrix(t *testing.T) {
	const batch, n = 1, oracleSamples
	ids := make([]schemas.ImageID, oracleBatches*n+oracleQueue)
	for i := range ids {
		ids[i] = schemas.ImageID{byte(i), 2}
	}
	ids[7], ids[oracleBatches*n+2] = ids[4], ids[4] // another batch and the queue show the image of the batch's second sample
	positives := map[int][]int{3: {3}, 4: {4, 7, oracleBatches*n + 2}, 5: {5}}
	for name, o := range map[string]ITCOptions{
		"one-hot": {Targets: OneHot}, "smoothed": {Targets: Smoothed, Alpha: 0.3}, "distilled": {Targets: Distilled, Alpha: 0.4},
		"consistency": {Targets: Consistency, Form: Additive, Lambda: 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			image, text := newSide("image"), newSide("text")
			if o.Targets == Consistency {
				image.queue, text.queue = nil, nil // which it refuses
				positives[4] = []int{4, 7}
			} else {
				positives[4] = []int{4, 7, oracleBatches*n + 2}
			}
			own := func(rows [][]float64) [][]float64 { return rows[batch*n : (batch+1)*n] }
			want, gradients := 0.0, map[string][]float64{}
			for i := batch * n; i < (batch+1)*n; i++ {
				allTexts, allImages := slices.Concat(text.keys, text.queue), slices.Concat(image.keys, image.queue)
				loss, grad := oracleRow(o, image.features[i], image.keys[i], text.features[i], allTexts, allImages, positives[i])
				want, gradients["image"] = want+loss/(2*n), append(gradients["image"], grad...)
				loss, grad = oracleRow(o, text.features[i], text.keys[i], image.features[i], allImages, allTexts, positives[i])
				want, gradients["text"] = want+loss/(2*n), append(gradients["text"], grad...)
			}
			onWorker(t, func(s *torch.Scope) error {
				matrix := func(rows [][]float64) *torch.Tensor { return s.Float64s(flat(rows), int64(len(rows)), oracleDim) }
				f := &forward{image: matrix(own(image.features)), text: matrix(own(text.features)), temperature: s.Float64s([]float64{oracleTau})}
				f.image.SetRequiresGrad(true)
				f.text.SetRequiresGrad(true)
				f.keys = keys{batchImage: matrix(own(image.keys)), batchText: matrix(own(text.keys))}
				b := unscored(n)
				f.picksI2T, f.picksT2I = make([]pick, n), make([]pick, n)
				for i := range b.Samples {
					b.Samples[i].ImageID = ids[batch*n+i]
					f.picksI2T[i].class, f.picksT2I[i].class = NoCandidate, NoCandidate
				}
				tr := &Trainer{options: MAFA(), momentum: &momentum{}}
				if tr.options.ITC = o; len(image.queue) > 0 {
					tr.momentum = &momentum{image: matrix(image.queue), text: matrix(text.queue), ids: ids[oracleBatches*n:]}
				}
				var others []batchKeys
				for _, v := range []int{0, 2} {
					rows := func(all [][]float64) *torch.Tensor { return matrix(all[v*n : (v+1)*n]) }
					others = append(others, batchKeys{rows(image.keys), rows(text.keys), ids[v*n : (v+1)*n]})
				}
				tr.momentum.stack(s, &f.keys, others)
				f.simI2T = similarities(s, f.image, f.keys.text, f.temperature)
				f.simT2I = similarities(s, f.text, f.keys.image, f.temperature)
				loss := tr.contrastive(s, f, b)
				s.Backward(loss)
				golden.Close(t, "loss", []float64{loss.Item()}, []float64{want}, 1e-12, 0)
				for what, x := range map[string]*torch.Tensor{"image": f.image, "text": f.text} {
					for i := range gradients[what] {
						gradients[what][i] /= 2 * n
					}
					golden.Close(t, "gradient of "+what, s.Grad(x).Float64s(), gradients[what], 1e-12, 0)
				}
				return nil
			})
		})
	}
}
