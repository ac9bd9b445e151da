package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Examples are plain pairs, without groups or candidates. Their methods are called from several goroutines.
type Examples interface {
	// Len returns the number of pairs.
	Len() int
	// ImageID returns the same id for pairs that show the same image.
	ImageID(i int) schemas.ImageID
	// Load writes the preprocessed image of a pair to pixels (3 x S x S) and returns the token ids of its caption. It
	// draws augmentations from r, which belongs to this pair in this epoch.
	Load(i int, pixels []float32, r *rand.Rand) ([]int32, error)
}

// BootstrapOptions are the options of a training on plain pairs.
type BootstrapOptions struct {
	Steps   int64  // in all, including those that the trainer has done already
	Batch   int    // samples a step, shared by its StepBatches mini-batches; all examples when there are fewer
	Seed    uint64 // of the order and the augmentations
	Loaders int    // examples loaded at a time; 0: 2
	// Candidates is the number of other samples, drawn at random, among which a pair's hard negatives are looked for; 0:
	// all. A model that knows nothing yet finds the same few samples nearest to everything. If these were every pair's
	// negatives, the matching head would learn to recognise them by themselves. ALBEF draws its negatives for the same
	// reason.
	Candidates int
	// Epoch is the epoch that begins with step EpochStep; both are 0 in a training of one piece. Later epochs are counted
	// from there.
	Epoch, EpochStep int64
	// Order, if set, is the order of every epoch, in place of one that is drawn. It may leave examples out.
	Order []int
	// Decay is the number of steps over which the rate of [StreamSteps] decays, up to the last of Steps; 0: it does not.
	Decay int64
	// Report, if set, is called with the result of every step: the counts of its mini-batches, and the mean of their
	// losses.
	Report func(*Result)
	// Checkpoints is the folder to which [Trainer.Save] writes after every CheckpointEvery steps; empty, or 0 steps: none.
	Checkpoints     string
	CheckpointEvery int64
	Positions       json.RawMessage // saved with every checkpoint
}

// perEpoch returns the number of steps of an epoch.
func (o *BootstrapOptions) perEpoch(examples int) int64 {
	if o.Order != nil {
		examples = len(o.Order)
	}
	return int64(examples / o.Batch)
}

// order returns the order of an epoch.
func (o *BootstrapOptions) order(examples int, epoch int64) []int {
	if o.Order != nil {
		return o.Order
	}
	return rng.New(o.Seed, "bootstrap order", epoch).Perm(examples)
}

// Bootstrap trains on random mini-batches of plain pairs. It makes a pipeline's first encoder and Con-D, before there
// are embeddings to group by. With [RetrievalFineTuning] it fine-tunes Con-D. It runs [Trainer.Step] on unscored
// batches, which is ALBEF's or GRIT-VLP's step: every other sample is a candidate, none a connection. Every epoch goes
// through the examples in a new order and leaves an incomplete last step out. The next batch is loaded during a step.
// With StepBatches above 1 a step's samples are divided: each of its mini-batches has its own keys and negatives, as on
// the authors' GPUs, and the gradient is the mean.
//
// Batch and epoch are functions of the step. So a trainer resumed from a checkpoint ends in the same bytes as an
// uninterrupted run.
func (t *Trainer) Bootstrap(ctx context.Context, data Examples, o BootstrapOptions) error {
	switch {
	case t.options.UniWeight > 0:
		return errors.New("bootstrapping: UniWeight is above 0 and plain pairs have no positives")
	case data.Len() == 0 || o.Batch <= 0 || o.Loaders < 0:
		return fmt.Errorf("bootstrapping: %d examples in batches of %d with %d loaders, want at least 1, 1 and 0", data.Len(), o.Batch, o.Loaders)
	}
	if o.Loaders == 0 {
		o.Loaders = 2
	}
	parts := t.options.StepBatches
	if o.Batch = min(o.Batch, data.Len()) / parts * parts; o.Batch == 0 || t.options.Gathers() {
		return fmt.Errorf("bootstrapping: %d examples in steps of %d mini-batches, want one for each and ITC.Gather=false", data.Len(), parts)
	}
	if o.perEpoch(data.Len()) == 0 || t.step < o.EpochStep {
		return fmt.Errorf("bootstrapping: an order of %d examples in batches of %d from step %d on, at step %d", len(o.Order), o.Batch, o.EpochStep, t.step)
	}
	first := t.step // the steps below move it while load runs
	loaded := make(chan loadedBatch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(loaded)
		return t.load(ctx, data, o, first, loaded)
	})
	group.Go(func() error {
		var whole Whole
		for l := range loaded {
			if err := t.bootstrapStep(ctx, l, o, &whole); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("bootstrapping: %w", err)
	}
	return nil
}

// bootstrapStep trains on a mini-batch and adds it to those of its step.
func (t *Trainer) bootstrapStep(ctx context.Context, l loadedBatch, o BootstrapOptions, whole *Whole) error {
	r, err := t.Step(ctx, l.batch, l.input)
	if err != nil {
		return err
	}
	if r.SetAside != "" {
		return fmt.Errorf("at step %d: %w: %s", r.Step, ErrNotFinite, r.SetAside)
	}
	whole.Add(r)
	if !r.Updated {
		return nil
	}
	if r.Losses, r.Counts = whole.Take(); o.Report != nil {
		o.Report(r)
	}
	if o.Checkpoints == "" || o.CheckpointEvery == 0 || t.step%o.CheckpointEvery != 0 {
		return nil
	}
	_, err = t.Save(ctx, o.Checkpoints, o.Positions, 0)
	return err
}

type loadedBatch struct {
	batch *schemas.ScoredBatch
	input Input
}

// load sends the mini-batches of all steps from the first.
func (t *Trainer) load(ctx context.Context, data Examples, o BootstrapOptions, first int64, to chan<- loadedBatch) error {
	parts := int64(t.options.StepBatches)
	size, perEpoch := o.Batch/int(parts), o.perEpoch(data.Len())*parts
	var order []int
	for number := first * parts; number < o.Steps*parts; number++ {
		of := number - o.EpochStep*parts
		epoch, sequence := o.Epoch+of/perEpoch, int(of%perEpoch)
		if sequence == 0 || order == nil {
			order = o.order(data.Len(), epoch)
		}
		members := order[sequence*size : (sequence+1)*size]
		l := loadedBatch{batch: plainBatch(data, members, epoch, sequence, int(perEpoch))}
		drawCandidates(l.batch, o.Candidates, rng.New(o.Seed, "bootstrap candidates", number))
		var err error
		if l.input, err = t.loadInput(data, members, o, epoch); err != nil {
			return err
		}
		if step := number / parts; o.Decay > 0 && step >= o.Steps-o.Decay {
			l.input.Decay = Decay{Batch: step - (o.Steps - o.Decay) + 1, Of: o.Decay}
		}
		select {
		case to <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// plainBatch returns a batch without candidates. Pairs that show the same image know each other.
func plainBatch(data Examples, members []int, epoch int64, sequence, perEpoch int) *schemas.ScoredBatch {
	b := &schemas.ScoredBatch{Batch: schemas.Batch{
		Epoch: int32(epoch), Sequence: int32(sequence), Batches: int32(perEpoch), Strategy: "random",
		Samples: make([]schemas.Sample, len(members)),
	}}
	shows := make(map[schemas.ImageID][]int32)
	for i, member := range members {
		id := data.ImageID(member)
		b.Samples[i].ImageID, b.Samples[i].Position = id, int32(member)
		shows[id] = append(shows[id], int32(i))
	}
	for i := range b.Samples {
		for _, j := range shows[b.Samples[i].ImageID] {
			if int(j) != i {
				b.Samples[i].Partners = append(b.Samples[i].Partners, j)
			}
		}
	}
	return b
}

// drawCandidates gives every sample m others as candidates in both directions. None of them is a connection.
func drawCandidates(b *schemas.ScoredBatch, m int, r *rand.Rand) {
	if m <= 0 {
		return
	}
	draw := func() (column schemas.Int32s) {
		for i := range b.Samples {
			row := schemas.Int32s{}
			for _, j := range r.Perm(len(b.Samples)) {
				if len(row) < m && j != i && !slices.Contains(b.Samples[i].Partners, int32(j)) {
					row = append(row, int32(j))
				}
			}
			for len(row) < m {
				row = append(row, -1)
			}
			column = append(column, row...)
		}
		return column
	}
	b.M, b.I2T, b.T2I = int32(m), draw(), draw()
	b.ProbI2T, b.ProbT2I = make(schemas.Floats32, len(b.I2T)), make(schemas.Floats32, len(b.T2I))
}

func (t *Trainer) loadInput(data Examples, members []int, o BootstrapOptions, epoch int64) (Input, error) {
	side := t.model.Config.ImageSize
	size := 3 * side * side
	in := Input{Pixels: make([]float32, len(members)*size), IDs: make([][]int32, len(members))}
	if t.options.ITC.Loss == Triple {
		in.Second = make([]float32, len(in.Pixels))
	}
	var group errgroup.Group
	group.SetLimit(o.Loaders)
	for i, member := range members {
		group.Go(func() error {
			r := rng.New(o.Seed, "bootstrap augmentation", epoch, int64(member))
			ids, err := data.Load(member, in.Pixels[i*size:(i+1)*size], r)
			if err != nil {
				return fmt.Errorf("loading example %d: %w", member, err)
			}
			in.IDs[i] = ids
			if in.Second != nil {
				_, err = data.Load(member, in.Second[i*size:(i+1)*size], rng.New(o.Seed, "bootstrap second view", epoch, int64(member)))
			}
			return err
		})
	}
	return in, group.Wait()
}
