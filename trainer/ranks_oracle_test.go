package trainer

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// rankSteps are steps of TCL on two ranks as testdata/tcl_ranks.py computes them.
type rankSteps struct {
	*safetensors.File
	config struct {
		Rows                               [][][]int // of each step and rank, in tcl_step
		Alpha, Decay, Rate, Least, Epsilon float64
		Queue                              int
		Total                              int64
		Masks                              [][2][][]int64
	}
}

func (r *rankSteps) values(t *testing.T, name string) []float64 {
	t.Helper()
	x, ok := r.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	return must.Get(x.Float64s())(t)
}

// sketch returns a tensor's sum of squares and its products with two vectors, as the script does.
func sketch(x []float64) []float64 {
	out := make([]float64, 3)
	for i, v := range x {
		at := float64(i + 1)
		out[0] += v * v
		out[1] += v * math.Cos(at)
		out[2] += v * math.Sin(at*at)
	}
	return out
}

// Two ranks with mini-batches of their own make the losses, rates, weights, momentum weights and queue that PyTorch alone
// computes from the formulas of TCL, step after step.
func TestTwoRanksOfTCLAreRecomputed(t *testing.T) {
	r := &rankSteps{File: must.Get(safetensors.Open(golden.Testdata(t, "tcl_ranks.safetensors")))(t)}
	must.Do(t, json.Unmarshal([]byte(r.Metadata["config"]), &r.config))
	v, c := openVectors(t, "tcl_step.safetensors"), r.config
	o := momentumCase{terms: make([]string, 6)}.options(t, v, c.Alpha)
	o.Momentum, o.StepBatches = MomentumOptions{Decay: c.Decay, Queue: c.Queue}, 2
	o.Schedule = Schedule{Kind: CosineSteps, Rate: c.Rate, Min: c.Least, TotalSteps: c.Total, WarmupStride: 1}
	o.AdamW.Eps = c.Epsilon
	alone := goldenTrainer(t, v, precisions[0].dtype, o)
	must.Do(t, alone.worker.Do(t.Context(), func(s *torch.Scope) error { goldenMomentum(t, v, alone, s); return nil }))
	ranks := copies(t, alone, 2)
	number := 0
	for step, rows := range c.Rows {
		var shares []Share
		rate := 0.0
		for rank, tr := range ranks {
			b, in := rankBatch(v, rows[rank], step, number)
			checkMasks(t, tr, b, in, c.Masks[number])
			number++
			var given runs
			got := must.Get(tr.Learn(t.Context(), b, in, rank, given.give(tr)))(t)
			golden.Close(t, name("losses of step %d on rank %d", step, rank), []float64{got.Losses.ITC, got.Losses.ITM, got.Losses.MLM, got.Losses.Total},
				r.values(t, name("out.%d.%d.losses", step, rank)), 2e-5, 0)
			share := must.Get(tr.TakeShare(t.Context(), given.give(tr)))(t)
			share.Grads, rate = given.all, got.Rate
			shares = append(shares, share)
		}
		golden.Close(t, name("rate of step %d", step), []float64{rate}, r.values(t, name("out.%d.rate", step)), 1e-9, 0)
		total := joined(shares)
		for _, tr := range ranks {
			must.Do(t, tr.Complete(t.Context(), total, rate))
			r.check(t, tr, step)
		}
	}
}

// rankBatch returns rows of the vectors as a mini-batch of pairs that no other mini-batch has.
func rankBatch(v vectors, rows []int, step, number int) (*schemas.ScoredBatch, Input) {
	all, second := goldenInput(v), v.Float32s("in.image_aug")
	b, size := unscored(len(rows)), len(second)/len(all.IDs)
	b.Sequence, b.Batches = int32(number), 100
	var in Input
	for i, row := range rows {
		b.Samples[i].ImageID = schemas.ImageID{byte(row), 3, byte(step)}
		in.IDs = append(in.IDs, all.IDs[row])
		in.Pixels = append(in.Pixels, all.Pixels[row*size:(row+1)*size]...)
		in.Second = append(in.Second, second[row*size:(row+1)*size]...)
	}
	return b, in
}

// checkMasks holds the words that MLM hides to those that the script was given.
func checkMasks(t *testing.T, tr *Trainer, b *schemas.ScoredBatch, in Input, want [2][][]int64) {
	t.Helper()
	drawn := tr.masker(b)(in.IDs)
	got := [2][][]int64{nil, drawn.labels}
	for _, ids := range drawn.ids {
		row := make([]int64, len(ids))
		for i, id := range ids {
			row[i] = int64(id)
		}
		got[0] = append(got[0], row)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("MLM hides other words in mini-batch %d, make the vectors anew with %s", b.Sequence, must.Get(json.Marshal(got))(t))
	}
}

// check compares a rank's state behind a step.
func (r *rankSteps) check(t *testing.T, tr *Trainer, step int) {
	t.Helper()
	compared := 0
	for i, p := range tr.model.Params() {
		golden.Close(t, name("%s behind step %d", p.Name, step), sketch(p.Tensor.Float64s()), r.values(t, name("out.%d.w.%s", step, p.Name)), 1e-4, 2e-5)
		compared++
		for _, part := range momentumParts {
			if strings.HasPrefix(p.Name, part+".") {
				of := name("out.%d.average.%s", step, p.Name)
				golden.Close(t, of, sketch(tr.momentum.model.Params()[i].Tensor.Float64s()), r.values(t, of), 1e-4, 2e-5)
				compared++
			}
		}
	}
	for which, rows := range map[string]*torch.Tensor{"image_queue": tr.momentum.image, "text_queue": tr.momentum.text} {
		golden.Close(t, name("%s behind step %d", which, step), rows.Float64s(), r.values(t, name("out.%d.%s", step, which)), 1e-4, 0)
		compared++
	}
	if stored := len(r.Names()) / len(r.config.Rows); compared != stored-3 { // losses of two ranks and a rate
		t.Errorf("%d tensors were compared behind step %d, the file has %d", compared, step, stored-3)
	}
}
