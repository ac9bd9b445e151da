package trainer

import (
	"context"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// plainSigmoid is SigLIP eq. 1 written out: every anchor and candidate by itself. labels are 1 for positives, -1 for
// negatives and 0 for candidates that are dropped.
func plainSigmoid(anchors, keys [][]float64, labels [][]float64, temperature, bias float64) (loss float64) {
	for i, a := range anchors {
		for j, k := range keys {
			dot := 0.0
			for e := range a {
				dot += a[e] * k[e]
			}
			if labels[i][j] != 0 {
				loss += math.Log1p(math.Exp(-labels[i][j]*(dot/temperature+bias))) / float64(len(anchors))
			}
		}
	}
	return loss
}

func someVectors(name string, n int) [][]float64 {
	r := rng.New(9, name)
	rows := make([][]float64, n)
	for i := range rows {
		for range 4 {
			rows[i] = append(rows[i], r.NormFloat64()/2)
		}
	}
	return rows
}

// Two samples show one image, an anchor has a connection, which is one more positive or is dropped, and a queue follows.
func TestSigmoidLossIsThatOfEveryPair(t *testing.T) {
	samples := make([]schemas.Sample, 3)
	samples[0].Partners, samples[2].Partners = schemas.Int32s{2}, schemas.Int32s{0}
	for i := range samples {
		samples[i].ImageID[0] = byte(i % 2)
	}
	queue := []schemas.ImageID{{9}, {1}}
	picks := []pick{{hardest: 1, second: -1, class: Connection}, {hardest: 2, second: -1}, {hardest: 1, second: -1}}
	for name, c := range map[string]struct {
		eliminate bool
		connected float64
	}{"a connection is a positive": {false, 1}, "a connection is dropped": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			labels := [][]float64{{1, c.connected, 1, -1, -1}, {-1, 1, -1, -1, 1}, {1, -1, 1, -1, -1}}
			ecm := MAFA().ECM
			ecm.Eliminate = c.eliminate
			anchors, keys := someVectors("anchors", 3), someVectors("keys", 5)
			const temperature, bias = 0.3, -1.5
			onWorker(t, func(s *torch.Scope) error {
				variable := func(rows [][]float64, shape ...int64) *torch.Tensor {
					x := s.Float64s(flat(rows), shape...)
					x.SetRequiresGrad(true)
					return x
				}
				a, k := variable(anchors, 3, 4), variable(keys, 5, 4)
				tau, b := variable([][]float64{{temperature}}), variable([][]float64{{bias}})
				loss := sigmoidLoss(s, a, k, tau, b, hardTargets(samples, queue, picks, ecm))
				s.Backward(loss)
				golden.Close(t, "loss", []float64{loss.Item()}, []float64{plainSigmoid(anchors, keys, labels, temperature, bias)}, 1e-12, 0)
				const h = 1e-6
				slope := func(at *float64, tau, bias *float64) float64 {
					was := *at
					*at = was + h
					up := plainSigmoid(anchors, keys, labels, *tau, *bias)
					*at = was - h
					down := plainSigmoid(anchors, keys, labels, *tau, *bias)
					*at = was
					return (up - down) / (2 * h)
				}
				tv, bv := temperature, bias
				for _, part := range []struct {
					name   string
					tensor *torch.Tensor
					rows   [][]float64
				}{{"anchors", a, anchors}, {"keys", k, keys}} {
					var want []float64
					for i := range part.rows {
						for e := range part.rows[i] {
							want = append(want, slope(&part.rows[i][e], &tv, &bv))
						}
					}
					golden.Close(t, "gradient of "+part.name, s.Grad(part.tensor).Float64s(), want, 1e-8, 0)
				}
				golden.Close(t, "gradient of the temperature", s.Grad(tau).Float64s(), []float64{slope(&tv, &tv, &bv)}, 1e-7, 0)
				golden.Close(t, "gradient of the bias", s.Grad(b).Float64s(), []float64{slope(&bv, &tv, &bv)}, 1e-8, 0)
				return nil
			})
		})
	}
}

func withSigmoid(o Options) Options {
	o.ITC.Loss, o.ITC.Targets = Sigmoid, OneHot
	return o
}

// A run that began with the softmax goes on with the sigmoid, whose bias begins at SigLIP's -10 and learns.
func TestSigmoidGoesOnFromSoftmax(t *testing.T) {
	for name, o := range map[string]Options{"without momentum": MAFA(), "with a momentum encoder": withQueue()} {
		t.Run(name, func(t *testing.T) {
			before := testTrainer(t, o)
			mustStep(t, before, testBatch(4, 0), testInput(4, 0))
			tr, _ := must.Get2(Resume(context.Background(), newWorker(t), save(t, before, t.TempDir(), ""), withSigmoid(o)))(t)
			defer tr.Free()
			bias := func() (v float64) {
				must.Do(t, tr.worker.Do(context.Background(), func(*torch.Scope) error { v = tr.model.Bias().Item(); return nil }))
				return v
			}
			if b := bias(); b != -10 {
				t.Fatalf("the bias begins at %g, want -10", b)
			}
			if l := mustStep(t, tr, testBatch(4, 1), testInput(4, 1)).Losses; !(l.ITC > 0) {
				t.Errorf("losses %+v", l)
			}
			learnt := bias()
			if learnt == -10 {
				t.Error("the bias did not move in a step")
			}
			again, _ := must.Get2(Resume(context.Background(), newWorker(t), save(t, tr, t.TempDir(), ""), withSigmoid(o)))(t)
			defer again.Free()
			if a, b := fingerprint(t, again), fingerprint(t, tr); a != b {
				t.Errorf("resumed weights are %s, want %s", a, b)
			}
		})
	}
}
