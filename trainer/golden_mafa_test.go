package trainer

import (
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// goldenScored puts the file's batch through the discriminator's core with all N-1 others as candidates. That is the
// first half of the decoupled path.
func goldenScored(t *testing.T, v vectors, dtype torch.DType) *schemas.ScoredBatch {
	t.Helper()
	w := newWorker(t)
	m := goldenModel(t, v, w, "c.", dtype)
	defer m.Free()
	matcher := must.Get(model.NewMatcher(t.Context(), m))(t)
	conD := must.Get(discriminator.New(matcher, discriminator.Options{Part: 16}))(t)
	in := goldenInput(v)
	n := len(in.IDs)
	b := unscored(n).Batch
	b.M = int32(n - 1)
	for anchor := range int32(n) {
		for j := range int32(n) {
			if j != anchor {
				b.I2T, b.T2I = append(b.I2T, j), append(b.T2I, j)
			}
		}
	}
	scored := must.Get(conD.Score(context.Background(), &b, discriminator.Input{Pixels: in.Pixels, IDs: in.IDs}))(t)
	w.Close()
	return scored
}

// checkProbabilities compares Con-D's probability of every anchor's hardest candidate.
func checkProbabilities(t *testing.T, v vectors, p precision, what string, list schemas.Int32s, prob schemas.Floats32, hardest []int64) {
	t.Helper()
	m := len(list) / len(hardest)
	got := make([]float64, len(hardest))
	for anchor, j := range hardest {
		for k := anchor * m; k < (anchor+1)*m; k++ {
			if int64(list[k]) == j {
				got[anchor] = float64(prob[k])
			}
		}
	}
	golden.Close(t, what, got, v.Float64s(p.out+what), 1e-5, 0) // the record holds float32
}

func classes(picks []pick) []int64 {
	out := make([]int64, len(picks))
	for i, p := range picks {
		out[i] = int64(p.class)
	}
	return out
}

func TestGoldenMAFAStep(t *testing.T) {
	v := openVectors(t, "mafa_step.safetensors")
	var config struct {
		Alpha float64 `json:"smoothing_alpha"`
	}
	v.Config(&config)
	o := MAFA()
	o.ITC.Alpha = config.Alpha
	o.ECM.High, o.ECM.Low = v.scalar("in.high_threshold"), v.scalar("in.low_threshold")
	in := goldenInput(v)
	for _, p := range precisions {
		scored := goldenScored(t, v, p.dtype)
		for epoch := range int32(2) {
			t.Run(fmt.Sprintf("%s/epoch%d", p.dtype, epoch), func(t *testing.T) {
				scored.Epoch = epoch
				tr := goldenTrainer(t, v, p.dtype, o)
				must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
					f, err := tr.forwardOf(s, scored, in, goldenMasker(t, v, v.Int64s("out.mlm_text_index")))
					if err != nil {
						return err
					}
					checkMAFAForward(t, v, p, scored, f)
					checkMAFALosses(t, s, v, p, tr, scored, f)
					return nil
				}))
			})
		}
	}
}

func checkMAFAForward(t *testing.T, v vectors, p precision, b *schemas.ScoredBatch, f *forward) {
	t.Helper()
	checkForward(t, v, p, map[string]*torch.Tensor{
		"image_feat": f.image, "text_feat": f.text, "sim_i2t": f.simI2T, "sim_t2i": f.simT2I, "itm_logits": f.itmLogits,
	})
	checkProbabilities(t, v, p, "cond_prob_i2t", b.I2T, b.ProbI2T, v.Int64s("out.neg_text_for_image"))
	checkProbabilities(t, v, p, "cond_prob_t2i", b.T2I, b.ProbT2I, v.Int64s("out.neg_image_for_text"))
	for what, got := range map[string][]int64{
		"neg_text_for_image": hardest(f.picksI2T), "neg_image_for_text": hardest(f.picksT2I),
		"neg2_text_for_image": secondHardest(f.picksI2T), "neg2_image_for_text": secondHardest(f.picksT2I),
		"class_i2t": classes(f.picksI2T), "class_t2i": classes(f.picksT2I),
		"itm_image_index": f.pairs.images, "itm_text_index": f.pairs.texts, "itm_labels": f.pairs.labels,
		"mlm_image_index": f.rows.images, "mlm_text_index": f.rows.texts,
	} {
		wantInts(t, what, got, v.Int64s("out."+what))
	}
}

func checkMAFALosses(t *testing.T, s *torch.Scope, v vectors, p precision, tr *Trainer, b *schemas.ScoredBatch, f *forward) {
	t.Helper()
	at := fmt.Sprintf("e%d.", b.Epoch)
	itc := tr.options.ITC
	for way, d := range map[string]direction{
		"i2t": directionOf(s, f.simI2T, hardTargets(b.Samples, nil, f.picksI2T, tr.options.ECM)),
		"t2i": directionOf(s, f.simT2I, hardTargets(b.Samples, nil, f.picksT2I, tr.options.ECM)),
	} {
		target := itc.targets(s, d, itc.soft(s, d, d), itc.alpha(b.Epoch, 0))
		checkForward(t, v, p, map[string]*torch.Tensor{at + "target_" + way: target})
	}
	total := f.total(s, tr.options)
	got := f.losses(s, total)
	checkLosses(t, v, p, map[string]float64{
		at + "loss_ita": got.ITC, at + "loss_itm": got.ITM, at + "loss_mlm": got.MLM, at + "loss_total": got.Total,
	})
	s.Backward(total)
	checkGradients(t, s, v, tr, p, "gradnorm."+at, p.grad+at)
}
