package trainer

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func hardest(picks []pick) []int64 {
	out := make([]int64, len(picks))
	for i, p := range picks {
		out[i] = int64(p.hardest)
	}
	return out
}

func secondHardest(picks []pick) []int64 {
	out := make([]int64, len(picks))
	for i, p := range picks {
		out[i] = int64(p.second)
	}
	return out
}

func checkForward(t *testing.T, v vectors, p precision, tensors map[string]*torch.Tensor) {
	t.Helper()
	for name, x := range tensors {
		golden.Close(t, name, x.Float64s(), v.Float64s(p.out+name), p.forward, 0)
	}
}

func checkLosses(t *testing.T, v vectors, p precision, losses map[string]float64) {
	t.Helper()
	for name, value := range losses {
		golden.Close(t, name, []float64{value}, v.Float64s(p.out+name), p.loss, 0)
	}
}

func TestGoldenITMHard(t *testing.T) {
	v := openVectors(t, "itm_hard.safetensors")
	o := GRITVLP()
	o.ITCWeight, o.MLMWeight = 0, 0
	n := len(goldenInput(v).IDs)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			tr := goldenTrainer(t, v, p.dtype, o)
			must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
				b := unscored(n)
				f, err := tr.forwardOf(s, b, goldenInput(v), tr.masker(b))
				if err != nil {
					return err
				}
				checkForward(t, v, p, map[string]*torch.Tensor{
					"sim_i2t": f.simI2T, "sim_t2i": f.simT2I,
					"itm_logits_pos":     s.Narrow(f.itmLogits, 0, 0, int64(n)),
					"itm_logits_t2i_neg": s.Narrow(f.itmLogits, 0, int64(n), int64(n)),
					"itm_logits_i2t_neg": s.Narrow(f.itmLogits, 0, int64(2*n), int64(n)),
				})
				wantInts(t, "neg_text_for_image", hardest(f.picksI2T), v.Int64s("out.neg_text_for_image"))
				wantInts(t, "neg_image_for_text", hardest(f.picksT2I), v.Int64s("out.neg_image_for_text"))
				wantInts(t, "neg2_text_for_image", secondHardest(f.picksI2T), v.Int64s("out.neg2_text_for_image"))
				wantInts(t, "neg2_image_for_text", secondHardest(f.picksT2I), v.Int64s("out.neg2_image_for_text"))
				total := f.total(s, o)
				checkLosses(t, v, p, map[string]float64{"loss_itm": f.losses(s, total).ITM})
				s.Backward(total)
				checkGradients(t, s, v, tr, p, "gradnorm.", p.grad)
				return nil
			}))
		})
	}
}

// When Con-D finds every candidate ambiguous, the pairs are those of the second hardest.
func TestGoldenITMSecondHardest(t *testing.T) {
	v := openVectors(t, "itm_hard.safetensors")
	o := MAFA()
	o.ITCWeight, o.MLMWeight = 0, 0
	n := len(goldenInput(v).IDs)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			tr := goldenTrainer(t, v, p.dtype, o)
			must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
				b := unscored(n)
				b.M = int32(n - 1)
				for anchor := range int32(n) {
					for j := range int32(n) {
						if j != anchor {
							b.I2T, b.ProbI2T = append(b.I2T, j), append(b.ProbI2T, 0.65)
						}
					}
				}
				b.T2I, b.ProbT2I = b.I2T, b.ProbI2T
				f, err := tr.forwardOf(s, b, goldenInput(v), tr.masker(b))
				if err != nil {
					return err
				}
				checkForward(t, v, p, map[string]*torch.Tensor{
					"itm_logits_pos":      s.Narrow(f.itmLogits, 0, 0, int64(n)),
					"itm_logits_t2i_neg2": s.Narrow(f.itmLogits, 0, int64(n), int64(n)),
					"itm_logits_i2t_neg2": s.Narrow(f.itmLogits, 0, int64(2*n), int64(n)),
				})
				return nil
			}))
		})
	}
}

func TestGoldenGRITStep(t *testing.T) {
	v := openVectors(t, "grit_step.safetensors")
	var config struct {
		Lambda float64 `json:"lambda_cons"`
	}
	v.Config(&config)
	o := GRITVLP()
	o.ITC.Lambda = config.Lambda
	in := goldenInput(v)
	for _, p := range precisions {
		t.Run(p.dtype.String(), func(t *testing.T) {
			tr := goldenTrainer(t, v, p.dtype, o)
			must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
				b := unscored(len(in.IDs))
				f, err := tr.forwardOf(s, b, in, goldenMasker(t, v, iota64(len(in.IDs))))
				if err != nil {
					return err
				}
				checkForward(t, v, p, map[string]*torch.Tensor{
					"image_feat": f.image, "text_feat": f.text, "sim_i2t": f.simI2T, "sim_t2i": f.simT2I, "itm_logits": f.itmLogits,
				})
				wantInts(t, "neg_text_for_image", hardest(f.picksI2T), v.Int64s("out.neg_text_for_image"))
				wantInts(t, "neg_image_for_text", hardest(f.picksT2I), v.Int64s("out.neg_image_for_text"))
				total := f.total(s, o)
				got := f.losses(s, total)
				checkLosses(t, v, p, map[string]float64{"loss_ita": got.ITC, "loss_itm": got.ITM, "loss_mlm": got.MLM, "loss_total": got.Total})
				s.Backward(total)
				checkGradients(t, s, v, tr, p, "gradnorm.", p.grad)
				checkSimilarityGradients(t, s, v, p, f, o)
				return nil
			}))
		})
	}
}

// checkSimilarityGradients treats the similarity matrices as independent variables.
func checkSimilarityGradients(t *testing.T, s *torch.Scope, v vectors, p precision, f *forward, o Options) {
	t.Helper()
	leaf := func(sim *torch.Tensor) direction {
		n := sim.Size(0)
		d := direction{sim: s.MulScalar(s.Detach(sim), 1), hard: s.To(onesOnDiagonal(s, n, n), sim.DType())}
		d.sim.SetRequiresGrad(true)
		return d
	}
	i2t, t2i := leaf(f.simI2T), leaf(f.simT2I)
	s.Backward(o.ITC.loss(s, i2t, t2i, 0))
	checkForward(t, v, p, map[string]*torch.Tensor{"dsim_i2t": s.Grad(i2t.sim), "dsim_t2i": s.Grad(t2i.sim)})
	onehot := ITCOptions{Targets: OneHot}.loss(s, i2t, t2i, 0)
	checkLosses(t, v, p, map[string]float64{"loss_itc_onehot": onehot.Item()})
}

func iota64(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}
