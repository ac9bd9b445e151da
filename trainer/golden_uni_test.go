package trainer

import (
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
)

func TestGoldenUniLoss(t *testing.T) {
	v := openVectors(t, "gpns.safetensors")
	for _, reading := range []UniReading{UniPrinted, UniWithPositive, UniInfoNCE} {
		t.Run(string(reading), func(t *testing.T) {
			prefix := "luni_" + string(reading)
			onWorker(t, func(s *torch.Scope) error {
				features := v.matrix(s, "in.image_feat")
				rows := func(which string) *torch.Tensor {
					index := v.Int64s(which)
					x := s.IndexSelect(features, 0, s.Int64s(index, int64(len(index))))
					x.SetRequiresGrad(true)
					return x
				}
				image, positive := rows("in.batch_index"), rows("in.batch_pos_index")
				tau := v.variable(s, "in.tau")
				perSample := reading.rows(s, image, positive, tau)
				golden.Close(t, "loss per sample", perSample.Float64s(), v.Float64s(prefix+".loss_per_sample"), 1e-10, 0)
				loss := reading.loss(s, image, positive, tau)
				s.Backward(loss)
				golden.Close(t, "loss", []float64{loss.Item()}, v.Float64s(prefix+".loss"), 1e-10, 0)
				golden.Close(t, "gradient of the images", s.Grad(image).Float64s(), v.Float64s(prefix+".d_v"), 1e-9, 0)
				golden.Close(t, "gradient of the positives", s.Grad(positive).Float64s(), v.Float64s(prefix+".d_pos"), 1e-9, 0)
				golden.Close(t, "gradient of the temperature", s.Grad(tau).Float64s(), v.Float64s(prefix+".d_tau"), 1e-9, 0)
				return nil
			})
		})
	}
}
