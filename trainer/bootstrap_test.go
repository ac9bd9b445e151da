package trainer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// stripes are pairs that a model can learn: the caption names the image's brightness. An image has two captions.
type stripes struct {
	pairs  int
	broken int // example that cannot be loaded; -1: none

	mu     sync.Mutex
	loaded map[int]int
}

func (d *stripes) Len() int { return d.pairs }

func (d *stripes) ImageID(i int) schemas.ImageID { return schemas.ImageID{byte(i / 2)} }

func (d *stripes) Load(i int, pixels []float32, r *rand.Rand) ([]int32, error) {
	d.mu.Lock()
	d.loaded[i]++
	d.mu.Unlock()
	if i == d.broken {
		return nil, errors.New("no such image")
	}
	shade := float32(i/2)/float32(d.pairs/2)*4 - 2
	for j := range pixels {
		pixels[j] = shade + 0.1*float32(r.NormFloat64())
	}
	return []int32{2, int32(5 + i%2), int32(7 + i/2), 3}, nil
}

func newStripes(pairs int) *stripes { return &stripes{pairs: pairs, broken: -1, loaded: map[int]int{}} }

func bootstrapOptions() Options {
	o := GRITVLP()
	o.Dropout = 0 // a model of a few thousand weights needs all of them
	o.Schedule = Schedule{Kind: CosineSteps, Rate: 1e-3, WarmupRate: 1e-3, TotalSteps: 100}
	return o
}

func TestBootstrapLearns(t *testing.T) {
	tr := testTrainer(t, bootstrapOptions())
	data := newStripes(32)
	var itc []float64
	must.Do(t, tr.Bootstrap(context.Background(), data, BootstrapOptions{Steps: 80, Batch: 8, Report: func(r *Result) {
		itc = append(itc, r.Losses.ITC)
		if r.Counts.Connections != 0 || r.Counts.Candidates != 0 {
			t.Errorf("a batch that nobody scored has %+v", r.Counts)
		}
	}}))
	mean := func(values []float64) (sum float64) {
		for _, v := range values {
			sum += v / float64(len(values))
		}
		return sum
	}

	if first, last := mean(itc[:8]), mean(itc[72:]); last > 0.8*first {
		t.Errorf("ITC fell from %.3f to %.3f only", first, last)
	}
	for i, times := range data.loaded { // 80 steps of 8 are 20 epochs of 32
		if times != 20 {
			t.Errorf("example %d was loaded %d times in 20 epochs", i, times)
		}
	}
}

// Every epoch goes through all examples in an order of its own, which the seed decides.
func TestBootstrapShufflesEveryEpoch(t *testing.T) {
	orders := func(seed uint64) (epochs [][]int32) {
		tr := testTrainer(t, bootstrapOptions())
		o := BootstrapOptions{Steps: 6, Batch: 4, Seed: seed, Report: func(r *Result) {
			if r.Step%2 == 0 {
				epochs = append(epochs, nil)
			}
			last := &epochs[len(epochs)-1]
			*last = append(*last, r.Features.Positions...)
		}}
		must.Do(t, tr.Bootstrap(context.Background(), newStripes(8), o))
		return epochs
	}
	first, again, other := orders(3), orders(3), orders(4)
	for e := range first {
		sorted := slices.Sorted(slices.Values(first[e]))
		if !slices.Equal(sorted, []int32{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("epoch %d has the examples %v, want each once", e, first[e])
		}
		if !slices.Equal(first[e], again[e]) || slices.Equal(first[e], other[e]) {
			t.Errorf("epoch %d is %v, again %v, and %v with another seed", e, first[e], again[e], other[e])
		}
		if e > 0 && slices.Equal(first[e], first[e-1]) {
			t.Errorf("epochs %d and %d have the same order %v", e-1, e, first[e])
		}
	}
	if len(first) != 3 {
		t.Errorf("%d epochs, want 3", len(first))
	}
}

// A given order is that of the steps from where its epoch begins, and the rate decays over the last steps to the least
// one.
func TestBootstrapGoesOnInAGivenOrder(t *testing.T) {
	o := bootstrapOptions()
	o.Schedule = Schedule{Kind: StreamSteps, Rate: 1e-3, Min: 1e-4}
	tr := testTrainer(t, o)
	var seen [][]int32
	var rates []float64
	run := func(b BootstrapOptions) error {
		b.Batch, b.Report = 2, func(r *Result) {
			seen = append(seen, r.Features.Positions)
			rates = append(rates, r.Rate)
		}
		return tr.Bootstrap(context.Background(), newStripes(8), b)
	}
	must.Do(t, run(BootstrapOptions{Steps: 1}))
	for _, to := range []int64{3, 4} { // stopped within the epoch
		must.Do(t, run(BootstrapOptions{Steps: to, Epoch: 1, EpochStep: 1, Order: []int{4, 0, 7, 1, 2, 6}, Decay: max(0, to-3)}))
	}
	if want := [][]int32{{4, 0}, {7, 1}, {2, 6}}; !slices.EqualFunc(seen[1:], want, slices.Equal[[]int32]) {
		t.Errorf("examples %v, want %v", seen[1:], want)
	}
	if want := []float64{1e-3, 1e-3, 1e-3, 1e-4}; !slices.Equal(rates, want) {
		t.Errorf("rates %v, want %v", rates, want)
	}
	for _, b := range []BootstrapOptions{{Steps: 9, Order: []int{1}}, {Steps: 9, EpochStep: 8}} {
		if err := run(b); err == nil || !strings.Contains(err.Error(), "at step 4") {
			t.Errorf("%+v: error %v", b, err)
		}
	}
}

func TestBootstrapRepeats(t *testing.T) {
	run := func(loaders int) string {
		tr := testTrainer(t, bootstrapOptions())
		must.Do(t, tr.Bootstrap(context.Background(), newStripes(10), BootstrapOptions{Steps: 5, Batch: 4, Seed: 3, Loaders: loaders}))
		return fingerprint(t, tr)
	}
	if a, b := run(1), run(4); a != b {
		t.Errorf("one loader and four end in weights %s and %s", a, b)
	}
}

// A run that is interrupted in the middle of an epoch ends in the same checkpoint, queue included.
func TestBootstrapGoesOnFromACheckpoint(t *testing.T) {
	o := RetrievalFineTuning()
	o.Schedule = bootstrapOptions().Schedule
	o.Momentum.Queue = 12
	run := func(tr *Trainer, steps int64, folder string) {
		t.Helper()
		must.Do(t, tr.Bootstrap(context.Background(), newStripes(26), BootstrapOptions{
			Steps: steps, Batch: 8, Seed: 3, Candidates: 4, Checkpoints: folder, CheckpointEvery: 4,
		}))
	}
	straight, interrupted := t.TempDir(), t.TempDir()
	run(testTrainer(t, o), 8, straight)
	run(testTrainer(t, o), 6, interrupted)
	path, bad, err := LatestCheckpoint(interrupted)
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	resumed, _ := must.Get2(Resume(context.Background(), newWorker(t), path, o))(t)
	defer resumed.Free()
	if resumed.Steps() != 4 {
		t.Errorf("the last checkpoint is of step %d, want 4", resumed.Steps())
	}
	run(resumed, 8, interrupted)
	last, _ := must.Get2(LatestCheckpoint(straight))(t)
	again, _ := must.Get2(LatestCheckpoint(interrupted))(t)
	if readFile(t, last) != readFile(t, again) {
		t.Error("the checkpoints of a straight and of an interrupted run differ")
	}
}

func TestPlainBatchKnowsSameImages(t *testing.T) {
	b := plainBatch(newStripes(8), []int{0, 5, 1, 4}, 2, 1, 2)
	for i, want := range []int32{2, 3, 0, 1} {
		if got := b.Samples[i].Partners; len(got) != 1 || got[0] != want {
			t.Errorf("sample %d has partners %v, want %d", i, got, want)
		}
	}
	if b.M != 0 || b.Epoch != 2 || b.Sequence != 1 || b.Batches != 2 {
		t.Errorf("batch %+v", b.Batch)
	}
}

func TestBootstrapWithFewExamples(t *testing.T) {
	tr := testTrainer(t, bootstrapOptions())
	var samples int
	err := tr.Bootstrap(context.Background(), newStripes(3), BootstrapOptions{Steps: 2, Batch: 96, Report: func(r *Result) { samples = r.Counts.Samples }})
	if err != nil || samples != 3 {
		t.Errorf("batches of %d samples, error %v", samples, err)
	}
}

func TestBootstrapStops(t *testing.T) {
	broken := newStripes(8)
	broken.broken = 3
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	withUni := bootstrapOptions()
	withUni.UniWeight = 1
	for _, c := range []struct {
		name    string
		ctx     context.Context //nolint:containedctx // a case of the table
		options Options
		data    *stripes
		batch   int
		want    string
	}{
		{"an example cannot be loaded", context.Background(), bootstrapOptions(), broken, 4, "loading example 3: no such image"},
		{"cancelled", cancelled, bootstrapOptions(), newStripes(8), 4, "context canceled"},
		{"no examples", context.Background(), bootstrapOptions(), newStripes(0), 4, "0 examples"},
		{"no batch", context.Background(), bootstrapOptions(), newStripes(8), 0, "batches of 0"},
		{"positives wanted", context.Background(), withUni, newStripes(8), 4, "no positives"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := testTrainer(t, c.options).Bootstrap(c.ctx, c.data, BootstrapOptions{Steps: 100, Batch: c.batch})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestDrawCandidates(t *testing.T) {
	const n, m = 6, 3
	b := &schemas.ScoredBatch{Batch: schemas.Batch{Samples: make([]schemas.Sample, n)}}
	b.Samples[0].Partners, b.Samples[1].Partners = schemas.Int32s{1}, schemas.Int32s{0}
	drawCandidates(b, m, rng.New(1, "test"))
	if int(b.M) != m || len(b.ProbI2T) != n*m || len(b.ProbT2I) != n*m {
		t.Fatalf("M %d with %d and %d probabilities, want %d with %d", b.M, len(b.ProbI2T), len(b.ProbT2I), m, n*m)
	}
	for _, column := range []schemas.Int32s{b.I2T, b.T2I} {
		for i := range n {
			seen := map[int32]bool{}
			for _, j := range column[i*m : (i+1)*m] {
				if j < 0 || int(j) == i || seen[j] || i+int(j) == 1 {
					t.Errorf("sample %d has candidate %d: want others, each once, and no partner", i, j)
				}
				seen[j] = true
			}
		}
	}
	few := &schemas.ScoredBatch{Batch: schemas.Batch{Samples: make([]schemas.Sample, 2)}}
	drawCandidates(few, m, rng.New(1, "test"))
	if got := few.I2T[:m]; got[0] != 1 || got[1] != -1 || got[2] != -1 {
		t.Errorf("one other sample gives candidates %v, want 1, -1, -1", got)
	}
}

// A step of four mini-batches makes the weights of four batches that are stepped through by hand: each has its own keys
// and negatives, and the queue takes all four afterwards. They are not the weights of one batch of as many pairs.
func TestBootstrapDividesItsSteps(t *testing.T) {
	of := func(parts int) Options {
		o := RetrievalFineTuning()
		o.Schedule, o.StepBatches, o.Momentum.Queue = bootstrapOptions().Schedule, parts, 12
		return o
	}
	data, loop := newStripes(26), BootstrapOptions{Steps: 4, Batch: 8, Seed: 3}
	var told []*Result
	loop.Report = func(r *Result) { told = append(told, r) }
	run := func(o Options) string {
		tr := testTrainer(t, o)
		must.Do(t, tr.Bootstrap(t.Context(), data, loop))
		if tr.Steps() != 4 || len(tr.momentum.ids) != 12 {
			t.Errorf("%d steps, %d keys in the queue, want 4 and 12", tr.Steps(), len(tr.momentum.ids))
		}
		return fingerprint(t, tr)
	}
	divided := run(of(4))
	if len(told) != 4 {
		t.Fatalf("%d results for 4 steps", len(told))
	}
	for i, r := range told {
		if r.Step != int64(i) || r.Counts.Samples != 8 || r.Counts.MatchPairs > 24 || r.Losses.Total <= 0 {
			t.Errorf("result %d is of step %d: %+v %+v", i, r.Step, r.Counts, r.Losses)
		}
	}
	by := testTrainer(t, of(4))
	for step := range 4 {
		var total float64
		for part := range 4 {
			number := 4*step + part
			order := rng.New(3, "bootstrap order", int64(number/12)).Perm(26)
			members := order[number%12*2 : number%12*2+2]
			in := must.Get(by.loadInput(data, members, BootstrapOptions{Seed: 3, Loaders: 1}, int64(number/12)))(t)
			r := mustStep(t, by, plainBatch(data, members, int64(number/12), number%12, 12), in)
			if r.Counts.Samples != 2 || r.Updated != (part == 3) {
				t.Errorf("part %d has %d samples; it completes a step: %t", part, r.Counts.Samples, r.Updated)
			}
			total += r.Losses.Total / 4
		}
		if told[step].Losses.Total != total {
			t.Errorf("step %d has a loss of %g, want the mean %g", step, told[step].Losses.Total, total)
		}
	}
	if fingerprint(t, by) != divided {
		t.Error("other weights than those of the same batches, stepped through by hand")
	}
	if run(of(1)) == divided {
		t.Error("four mini-batches of 2 make the weights of one of 8")
	}
}
