package trainer

import (
	"context"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// momentumParts lists the parts of the reference's state that have a momentum copy, whose names end in _m.
var momentumParts = []string{"visual_encoder", "text_encoder", "vision_proj", "text_proj"}

// goldenMomentum gives a trainer the file's momentum encoder and queue. The matching head and the temperature have no
// momentum copy in the reference, and the trainer does not use one either.
func goldenMomentum(t *testing.T, v vectors, tr *Trainer, s *torch.Scope) {
	t.Helper()
	for i, p := range tr.model.Params() {
		for _, part := range momentumParts {
			if rest, ok := strings.CutPrefix(p.Name, part+"."); ok {
				tr.momentum.model.Params()[i].Tensor.SetFloat64s(v.Float64s("w." + part + "_m." + rest))
			}
		}
	}
	n, size := len(goldenInput(v).IDs), int(v.Must("in.image_queue").Shape[1])
	order := goldenQueueOrder(v, n)
	newestFirst := func(name string) *torch.Tensor {
		rows := s.Transpose(v.matrix(s, name), 0, 1)
		rows = s.To(s.IndexSelect(rows, 0, s.Int64s(order, int64(size))), tr.model.Params()[0].Tensor.DType())
		return s.Keep(s.Contiguous(rows))
	}
	tr.momentum.image, tr.momentum.text = newestFirst("in.image_queue"), newestFirst("in.text_queue")
	tr.momentum.ids = make([]schemas.ImageID, size)
	for i := range tr.momentum.ids {
		tr.momentum.ids[i] = schemas.ImageID{byte(i), 2} // nobody in the batch shows these
	}
}

// goldenQueueOrder lists the columns of the reference's queue from the newest block of a batch to the oldest. The
// reference writes blocks at the pointer, so the newest block is the one before it.
func goldenQueueOrder(v vectors, n int) (order []int64) {
	pointer, size := int(v.Int64s("in.queue_ptr")[0]), int(v.Must("in.image_queue").Shape[1])
	for block := range size / n {
		for i := range n {
			order = append(order, int64(((pointer-(block+1)*n+size)%size)+i))
		}
	}
	return order
}

// momentumCase is one of the files: how it was trained, and the names of its terms.
type momentumCase struct {
	file  string
	terms []string // of the contrastive loss
}

func (c momentumCase) options(t *testing.T, v vectors, alpha float64) Options {
	t.Helper()
	var config struct {
		QueueSize int `json:"queue_size"`
	}
	v.Config(&config)
	o := GRITVLP()
	o.ITC.Targets, o.ITC.Alpha, o.MLMDistill = Distilled, alpha, alpha
	if len(c.terms) > 2 {
		o.ITC.Loss = Triple
	}
	o.Momentum = MomentumOptions{Decay: v.scalar("in.momentum"), Queue: config.QueueSize}
	return o
}

// Momentum steps equal those of the authors' code in losses, features, negatives, gradients of every weight, the queue
// and the momentum weights.
func TestGoldenMomentumSteps(t *testing.T) {
	for _, c := range []momentumCase{
		{"albef_mlm_distill.safetensors", []string{"loss_i2t", "loss_t2i"}},
		{"tcl_step.safetensors", []string{"loss_i2t", "loss_t2i", "loss_i2i", "loss_t2t", "loss_i2i_local", "loss_t2t_local"}},
	} {
		v := openVectors(t, c.file)
		for _, alpha := range []string{"a0", "a04"} {
			for _, p := range precisions {
				if !v.has(p.out + "image_feat") {
					continue
				}
				t.Run(name("%s/%s/%s", strings.TrimSuffix(c.file, ".safetensors"), alpha, p.dtype), func(t *testing.T) {
					tr := goldenTrainer(t, v, p.dtype, c.options(t, v, v.scalar("in."+alpha+".alpha")))
					must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
						return checkMomentumStep(t, s, v, tr, p, c, alpha)
					}))
				})
			}
		}
	}
}

func checkMomentumStep(t *testing.T, s *torch.Scope, v vectors, tr *Trainer, p precision, c momentumCase, alpha string) error {
	t.Helper()
	goldenMomentum(t, v, tr, s)
	in := goldenInput(v)
	if tr.options.ITC.Loss == Triple {
		in.Second = v.Float32s("in.image_aug")
	}
	n := len(in.IDs)
	tr.momentum.follow(tr.model)
	f, err := tr.forwardOf(s, unscored(n), in, goldenMasker(t, v, iota64(n)))
	if err != nil {
		return err
	}
	longest := 0 // a GPU's texts are padded beyond it
	for _, ids := range in.IDs {
		longest = max(longest, len(ids))
	}
	unpadded := func(hidden *torch.Tensor) *torch.Tensor { return s.Narrow(hidden, 1, 0, int64(longest)) }
	checkForward(t, v, p, map[string]*torch.Tensor{
		"image_feat": f.image, "text_feat": f.text, "image_feat_m": f.keys.batchImage, "text_feat_m": f.keys.batchText,
		"image_embeds_m": f.keys.tokens, "text_embeds_m": unpadded(f.keys.hidden), "itm_logits": f.itmLogits,
		"image_embeds": f.tokens, "text_embeds": unpadded(f.hidden),
	})
	sims := map[string]*torch.Tensor{"sim_i2t": f.simI2T, "sim_t2i": f.simT2I}
	if tr.options.ITC.Loss == Triple {
		sims["sim_i2i"], sims["sim_t2t"] = f.simI2I, f.simT2T
	}
	order := append(iota64(n), goldenQueueOrder(v, n)...)
	for i := n; i < len(order); i++ {
		order[i] += int64(n) // the queue's columns follow the batch's
	}
	for name, sim := range sims {
		want := s.IndexSelect(v.matrix(s, p.out+name), 1, s.Int64s(order, int64(len(order))))
		golden.Close(t, name, sim.Float64s(), want.Float64s(), p.forward, 0)
	}
	checkDistilled(t, s, v, p, c, f, alpha)
	checkAlignment(t, s, v, p, c, f, alpha)
	wantInts(t, "neg_text_for_image", hardest(f.picksI2T), v.Int64s("out.neg_text_for_image"))
	wantInts(t, "neg_image_for_text", hardest(f.picksT2I), v.Int64s("out.neg_image_for_text"))
	total := f.total(s, tr.options)
	got := f.losses(s, total)
	q := p
	q.out += alpha + "."
	checkLosses(t, v, q, map[string]float64{
		"loss_ita": got.ITC, "loss_itm": got.ITM, "loss_mlm": got.MLM, "loss_total": got.Total, "loss_mlm_hard": f.mlmHard.Item(),
	})
	if f.mlmSoft != nil {
		checkLosses(t, v, q, map[string]float64{"loss_mlm_distill": f.mlmSoft.Item()})
	}
	for i, term := range f.itcTerms {
		checkLosses(t, v, q, map[string]float64{c.terms[i]: term.Item()})
	}
	s.Backward(total)
	checkGradients(t, s, v, tr, p, "gradnorm."+alpha+".", p.grad+alpha+".")
	if k, wanted := tr.momentum.keep(s, f); wanted {
		tr.open.keys = append(tr.open.keys, k) // the trainer frees them
		tr.momentum.push(s, k)
	}
	checkMomentumState(t, v, tr, p, n)
	return nil
}

// checkDistilled compares the teacher's targets of ITC, and the gradients of the loss with respect to the similarities.
func checkDistilled(t *testing.T, s *torch.Scope, v vectors, p precision, c momentumCase, f *forward, alpha string) {
	t.Helper()
	if p.dtype != torch.Float64 {
		return // the file's similarities are taken, in float64
	}
	o := ITCOptions{Targets: Distilled}
	share := v.scalar("in." + alpha + ".alpha")
	way := func(name string, picks []pick) direction {
		return direction{
			sim: v.variable(s, p.out+"sim_"+name), teacher: v.matrix(s, p.out+"sim_"+name+"_m"),
			hard: hardTargets(f.samples, f.keys.others, picks, ECMOptions{}).hard(s, p.dtype),
		}
	}
	i2t, t2i := way("i2t", f.picksI2T), way("t2i", f.picksT2I)
	terms := float64(len(c.terms)) / 2 // the loss is the mean of all terms, and that of o of two
	s.Backward(s.MulScalar(o.loss(s, i2t, t2i, share), 1/terms))
	for name, d := range map[string][2]direction{"i2t": {i2t, t2i}, "t2i": {t2i, i2t}} {
		target := o.targets(s, d[0], o.soft(s, d[0], d[1]), share)
		golden.Close(t, "target_"+name, target.Float64s(), v.Float64s(p.out+alpha+".target_"+name), 1e-10, 0)
		golden.Close(t, "dsim_"+name, s.Grad(d[0].sim).Float64s(), v.Float64s(p.out+alpha+".dsim_"+name), 1e-10, 0)
	}
}

// checkMomentumState compares the queue and the momentum weights after the step.
func checkMomentumState(t *testing.T, v vectors, tr *Trainer, p precision, n int) {
	t.Helper()
	for name, rows := range map[string]*torch.Tensor{"image_queue": tr.momentum.image, "text_queue": tr.momentum.text} {
		size, width := int(rows.Size(0)), int(rows.Size(1))
		columns := v.Float64s(p.out + name)
		pointer := int(v.Int64s("in.queue_ptr")[0])
		want := make([]float64, 0, size*width)
		for i := range size {
			column := (pointer-(i/n)*n+size)%size + i%n
			for k := range width {
				want = append(want, columns[k*size+column])
			}
		}
		golden.Close(t, name, rows.Float64s(), want, p.forward, 0)
	}
	size := v.Must("in.image_queue").Shape[1]
	wantInts(t, "queue_ptr", []int64{(v.Int64s("in.queue_ptr")[0] + int64(n)) % size}, v.Int64s("out.queue_ptr"))
	compared := 0
	for i, param := range tr.model.Params() {
		for _, part := range momentumParts {
			rest, ok := strings.CutPrefix(param.Name, part+".")
			if want := p.out + "w." + part + "_m." + rest; ok && v.has(want) {
				golden.Close(t, want, tr.momentum.model.Params()[i].Tensor.Float64s(), v.Float64s(want), p.forward, 0)
				compared++
			}
		}
	}
	stored := map[string]bool{} // of either run of the reference
	for _, name := range v.Names() {
		run, name, ok := strings.Cut(name, ".w.")
		if ok && strings.HasPrefix(run, "out") && !strings.Contains(name, "predictions.decoder.") && !strings.HasSuffix(name, "position_ids") {
			stored[name] = true
		}
	}
	if compared != len(stored) {
		t.Errorf("%d momentum weights were compared, the file has %d", compared, len(stored))
	}
}
