package trainer

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// joined adds up shares as the ranks do.
func joined(shares []Share) Share {
	total := Share{Grads: make([][]float32, len(shares[0].Grads))}
	for _, s := range shares {
		total.Batches, total.Learned, total.Keys = total.Batches+s.Batches, total.Learned+s.Learned, append(total.Keys, s.Keys...)
	}
	for i := range total.Grads {
		var sum func(from, to int) []float32
		sum = func(from, to int) []float32 {
			if to-from == 1 {
				return shares[from].Grads[i]
			}
			left, right := sum(from, (from+to)/2), sum((from+to)/2, to)
			if left == nil || right == nil {
				return append(left, right...)
			}
			for k := range left {
				left[k] += right[k]
			}
			return left
		}
		total.Grads[i] = sum(0, len(shares))
	}
	return total
}

// runs are what a trainer has given of its share.
type runs struct {
	all   [][]float32
	given int
}

// give returns what takes the share of a trainer.
func (r *runs) give(tr *Trainer) Give {
	return func(run int, grads [][]float32) {
		if run != r.given {
			panic(fmt.Sprintf("run %d is given behind %d runs", run, r.given))
		}
		if r.given++; r.all == nil {
			r.all = make([][]float32, len(tr.model.Params()))
		}
		for k, i := range tr.Runs()[run] {
			r.all[i] = grads[k]
		}
	}
}

// copies makes trainers with the state of another.
func copies(t *testing.T, from *Trainer, n int) (ranks []*Trainer) {
	t.Helper()
	var state bytes.Buffer
	must.Do(t, from.Write(context.Background(), &state))
	for range n {
		tr := must.Get(Read(context.Background(), newWorker(t), state.Bytes(), from.options))(t)
		t.Cleanup(tr.Free)
		ranks = append(ranks, tr)
	}
	return ranks
}

// stepOfRanks makes a step of some batches on all ranks.
func stepOfRanks(t *testing.T, ranks []*Trainer, batches []int, spoiled int) (results []*Result) {
	t.Helper()
	each := ranks[0].options.StepBatches / len(ranks)
	prepareOnRanks(t, ranks, batches)
	grads := make([]runs, len(ranks))
	for number, i := range batches {
		tr := ranks[number/each]
		weight := tr.options.MLMWeight
		if i == spoiled {
			tr.options.MLMWeight = math.Inf(1)
		}
		var give Give
		if number%each == each-1 {
			give = grads[number/each].give(tr)
		}
		r := must.Get(tr.Learn(context.Background(), testBatch(4, i), testInput(4, i), number, give))(t)
		tr.options.MLMWeight = weight
		if given := grads[number/each].given; give != nil && r.SetAside == "" && given != len(tr.Runs()) {
			t.Errorf("%d of %d runs are given with the last batch", given, len(tr.Runs()))
		}
		results = append(results, r)
	}
	var shares []Share
	for rank, tr := range ranks {
		share := must.Get(tr.TakeShare(context.Background(), grads[rank].give(tr)))(t)
		share.Grads = grads[rank].all
		shares = append(shares, share)
	}
	total := joined(shares)
	for _, tr := range ranks {
		must.Do(t, tr.Complete(context.Background(), total, results[len(results)-1].Rate))
	}
	return results
}

func ofEight(o Options) Options {
	o.StepBatches = 8
	return o
}

// Ranks that share the batches of every step have the state of a trainer that has them all, bit by bit: weights,
// moments, momentum encoder and queue. So it is for a step that is short, for one with a batch that is set aside, and
// for several.
func TestRanksMakeTheSameSteps(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		options Options
		steps   [][]int
		spoiled int
	}{
		"plain":     {everything(), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, none},
		"queue":     {withQueue(), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, none},
		"clipped":   {clipped(everything(), 0.01), [][]int{{0, 1, 2, 3}, {4, 5}}, none},
		"set aside": {withQueue(), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, 3},
		"one left":  {withQueue(), [][]int{{0, 1, 2, 3}, {4}}, none},
		"two left":  {everything(), [][]int{{0, 1}}, none},
		"three":     {withQueue(), [][]int{{0, 1, 2}}, 1},
		"none":      {withQueue(), [][]int{{0}}, 0},
		"eight":     {ofEight(everything()), [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12}}, none},

		"gathered":            {gathered(everything()), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, none},
		"gathered, queue":     {gathered(withQueue()), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, none},
		"gathered, TCL":       {gathered(withTCL()), [][]int{{0, 1, 2, 3}, {4, 5}}, none},
		"gathered, set aside": {gathered(withQueue()), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, 3},
		"gathered, one left":  {gathered(everything()), [][]int{{0, 1, 2, 3}, {4}}, none},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.StepBatches = max(4, c.options.StepBatches)
			alone := testTrainer(t, c.options)
			groups := map[int][]*Trainer{2: copies(t, alone, 2), 4: copies(t, alone, 4)}
			for _, batches := range c.steps {
				var want []*Result
				prepareAll(t, alone, batches...)
				for _, i := range batches {
					alone.options.MLMWeight = c.options.MLMWeight
					if i == c.spoiled {
						alone.options.MLMWeight = math.Inf(1)
					}
					r := mustStep(t, alone, testBatch(4, i), testInput(4, i))
					r.Updated = false
					want = append(want, r)
				}
				must.Get(alone.Finish(context.Background()))(t)
				for n, ranks := range groups {
					if got := stepOfRanks(t, ranks, batches, c.spoiled); !reflect.DeepEqual(got, want) {
						t.Errorf("%d ranks: another result", n)
					}
				}
			}
			want := readFile(t, save(t, alone, t.TempDir(), "{}"))
			for n, ranks := range groups {
				for rank, tr := range ranks {
					if readFile(t, save(t, tr, t.TempDir(), "{}")) != want {
						t.Errorf("rank %d of %d has another state than a trainer alone", rank, n)
					}
				}
			}
		})
	}
}

// A step that is dropped leaves nothing behind, wherever it was: it comes again, and ends in the same bits.
func TestADroppedStepComesAgain(t *testing.T) {
	for name, o := range map[string]Options{"queue": withQueue(), "gathered": gathered(withQueue())} {
		t.Run(name, func(t *testing.T) {
			o.StepBatches = 4
			alone := testTrainer(t, o)
			other := copies(t, alone, 1)[0]
			steps := [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}
			for _, batches := range steps {
				prepareAll(t, alone, batches...)
				for _, i := range batches {
					mustStep(t, alone, testBatch(4, i), testInput(4, i))
				}
				live := torch.Live()
				for taken := range len(batches) {
					prepareAll(t, other, batches...)
					for _, i := range batches[:taken] {
						mustStep(t, other, testBatch(4, i), testInput(4, i))
					}
					must.Do(t, other.Drop(t.Context()))
					if n := torch.Live(); n != live {
						t.Errorf("behind %d batches %d tensors are left", taken, n-live)
					}
				}
				prepareAll(t, other, batches...)
				for _, i := range batches {
					mustStep(t, other, testBatch(4, i), testInput(4, i))
				}
			}
			if readFile(t, save(t, alone, t.TempDir(), "{}")) != readFile(t, save(t, other, t.TempDir(), "{}")) {
				t.Error("a trainer that dropped steps has another state")
			}
		})
	}
}

// Features that are made anew within a step name the same batch on every rank.
func TestRanksEncodeAlike(t *testing.T) {
	o := inPairs(everything())
	alone := testTrainer(t, o)
	other := copies(t, alone, 1)[0]
	mustStep(t, alone, testBatch(4, 0), testInput(4, 0))
	want := must.Get(alone.Encode(context.Background(), testBatch(4, 1), testInput(4, 1)))(t)
	got, err := other.EncodeAt(context.Background(), testBatch(4, 1), testInput(4, 1), 1)
	if err != nil || !reflect.DeepEqual(got, want) || got.Step != 1 {
		t.Errorf("features of batch %d, want %d (%v)", got.Step, want.Step, err)
	}
}

// A sum that does not fit the model is refused, and changes nothing.
func TestSumsThatDoNotFit(t *testing.T) {
	o := withQueue()
	o.StepBatches = 2
	tr := testTrainer(t, o)
	before := fingerprint(t, tr)
	params := len(tr.model.Params())
	wrong := make([][]float32, params)
	wrong[1] = []float32{1, 2, 3, 4, 5, 6, 7}
	for want, sum := range map[string]Share{
		fmt.Sprintf("gradients of 0 parameters, want %d", params): {Learned: 1},
		"has 7 values, want":                           {Learned: 1, Grads: wrong},
		"momentum keys of 1 and 0 values for 0 images": {Learned: 1, Grads: make([][]float32, params), Keys: []Keys{{Image: []float32{1}}}},
	} {
		if err := tr.Complete(context.Background(), sum, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if fingerprint(t, tr) != before || tr.Steps() != 0 {
		t.Error("a sum that was refused has changed the trainer")
	}
	if _, err := Read(context.Background(), newWorker(t), []byte("no state"), o); err == nil || !strings.Contains(err.Error(), "reading the state of a trainer") {
		t.Errorf("%v", err)
	}
}
