package experiments

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// sampling returns the grouper's settings.
func (s *setup) sampling(strategy grouper.Strategy, batch, epochs, candidates int) grouper.Options {
	o := grouper.Defaults()
	o.Seed, o.Strategy, o.Epochs, o.BatchSize, o.Candidates = s.seed, strategy, epochs, batch, candidates
	o.QueueSize, o.SearchSpace, o.Texts, o.Workers = 0, s.sizes.Space*batch, grouper.TextNone, 2
	return o
}

// training returns GRIT-VLP's settings, for either strategy.
func (s *setup) training(steps int64) trainer.Options {
	o := trainer.GRITVLP()
	top := cmp.Or(s.rate, rate)
	o.Seed, o.MLMWeight, o.Dropout = s.seed, mlmWeight, s.dropout
	o.Schedule.Rate, o.Schedule.Min, o.Schedule.WarmupRate = top, top/20, top/10
	o.Schedule.WarmupSteps, o.Schedule.TotalSteps = min(20, steps-1), steps
	return o
}

// training says how to train on a group.
type training struct {
	name     string // in the log
	sampling grouper.Options
	options  trainer.Options
	score    score
	batch    func(b *schemas.Batch) error // is shown every mini-batch; may be nil
}

// score makes a scored mini-batch, with Con-D's probabilities or without any.
type score func(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error)

// unscored leaves the choice of hard negatives to the model in training.
func unscored(_ context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	out := &schemas.ScoredBatch{Batch: *b, Masked: in.Masked}
	out.M, out.I2T, out.T2I = 0, nil, nil // candidates that nobody scored count for the truth alone
	return out, nil
}

// train trains on a group's mini-batches and writes the weights to out.
func (s *setup) train(ctx context.Context, start string, g *group, how training, out string) error {
	m, err := model.Load(ctx, s.worker, start, model.LoadOptions{})
	if err != nil {
		return err
	}
	t, err := trainer.New(ctx, m, how.options)
	if err != nil {
		m.Free()
		return err
	}
	defer t.Free()
	loader, err := s.loader(m)
	if err != nil {
		return err
	}
	report := progress(s.log, how.name, how.options.Schedule.TotalSteps)
	err = g.batches(ctx, how.sampling, func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
		in, err := how.input(ctx, loader, b)
		if err != nil {
			return nil, err
		}
		scored, err := how.score(ctx, b, discriminator.Input{Pixels: in.Pixels, IDs: in.IDs})
		if err != nil {
			return nil, err
		}
		r, err := t.Step(ctx, scored, in)
		if err != nil {
			return nil, err
		}
		report(r)
		return &r.Features, nil
	})
	if err != nil {
		return err
	}
	return m.Save(ctx, out)
}

// input loads what the losses want of a mini-batch. The images are local: one that is gone is an error.
func (t training) input(ctx context.Context, l *dataset.Loader, b *schemas.Batch) (trainer.Input, error) {
	if t.batch != nil {
		if err := t.batch(b); err != nil {
			return trainer.Input{}, err
		}
	}
	in := trainer.Input{IDs: l.IDs(b)}
	for _, load := range []struct {
		wanted bool
		view   func(context.Context, *schemas.Batch, []schemas.Mask) ([]float32, []schemas.Mask, error)
		to     *[]float32
	}{
		{true, l.Images, &in.Pixels},
		{t.options.ITC.Loss == trainer.Triple, l.Second, &in.Second},
		{t.options.UniWeight > 0, l.Positives, &in.Positives},
	} {
		if !load.wanted {
			continue
		}
		pixels, lost, err := load.view(ctx, b, nil)
		if err != nil {
			return trainer.Input{}, err
		}
		if len(lost) > 0 {
			return trainer.Input{}, fmt.Errorf("image of sample %d of batch %d is gone: %s", lost[0].Sample, b.Sequence, lost[0].Reason)
		}
		*load.to = pixels
	}
	return in, nil
}

func (s *setup) loader(m *model.Model) (*dataset.Loader, error) {
	words, err := m.Words()
	if err != nil {
		return nil, err
	}
	return dataset.NewLoader(s.data.images, m.Config.ImageSize, m.Config.TextTokens, words, s.seed, s.augment), nil
}

// evaluate measures weights on the held-out pairs.
func (s *setup) evaluate(ctx context.Context, weights string, o eval.Options) (*eval.Report, error) {
	return s.evaluateOn(ctx, weights, s.data.held, o)
}

// evaluateOn does the same on other pairs.
func (s *setup) evaluateOn(ctx context.Context, weights string, pairs *dataset.Corpus, o eval.Options) (*eval.Report, error) {
	m, err := model.Load(ctx, s.worker, weights, model.LoadOptions{Frozen: true})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	words, err := m.Words()
	if err != nil {
		return nil, err
	}
	held := eval.FromCorpus(ctx, pairs, s.data.images, words, m.Config.ImageSize, m.Config.TextTokens)
	return eval.Evaluate(ctx, m, held, o)
}

// byITC ranks by similarities alone.
var byITC = eval.Options{TopK: eval.NoRerank}

// block is the number of held-out pictures among which evaluate looks for the hard negatives of a pair.
const block = 25

// mining adds up the similarities of models. Captions of other blocks come last, and so do captions that are true of a
// picture by chance.
func (s *setup) mining(ctx context.Context, weights ...string) (*eval.Matrix, error) {
	var sum eval.Matrix
	for i, w := range weights {
		r, err := s.evaluate(ctx, w, byITC)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			sum = r.Sim
			continue
		}
		for at, v := range r.Sim.Data {
			sum.Data[at] += v
		}
	}
	s.passOver(&sum, func(image, own int) bool { return image/block == own/block })
	return &sum, nil
}

// passOver moves pairs to the end of a ranking: captions that are true of a picture by chance, and those of pictures
// that are not asked about.
func (s *setup) passOver(sim *eval.Matrix, asked func(image, own int) bool) {
	ids := make([]schemas.ImageID, sim.Rows)
	for i := range s.data.held.Pairs() {
		_, image, id := s.data.held.Pair(i)
		ids[image] = id
	}
	const last = -100 // similarities are within -1..1
	for text := range sim.Cols {
		caption, own, _ := s.data.held.Pair(text)
		for image, id := range ids {
			if !asked(image, own) || image != own && s.data.matches(id, caption) {
				sim.Row(image)[text] = last
			}
		}
	}
}
