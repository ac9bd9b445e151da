package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
)

// falseNegativeSettings are those of X1.
type falseNegativeSettings struct {
	First          FirstModel `json:"first_model"`
	Scenes         int        `json:"scenes"`
	FalseNegatives float64    `json:"false_negatives"`
	Wrong          float64    `json:"wrong"` // of the noisy captions
	Irrelevant     float64    `json:"irrelevant"`
	Batch          int        `json:"batch"`   // N of GRIT
	Spaces         []int      `json:"spaces"`  // M
	Batches        []int      `json:"batches"` // N of random mini-batches
}

// sharedFirst returns the first model that X1 and X8 share.
func sharedFirst(short bool) FirstModel {
	f := FirstModel{Preset: "micro", Side: 32, Seed: 9, Scenes: 12_000, Captions: 2, FalseNegatives: 0.4, Steps: 4000, Batch: 128}
	if short {
		f.Scenes, f.Steps, f.Batch = 200, 10, 16
	}
	return f
}

func falseNegativeSizes(short bool, scale int) falseNegativeSettings {
	s := falseNegativeSettings{
		First: sharedFirst(short), Scenes: 9600, FalseNegatives: 0.05, Wrong: 0.15, Irrelevant: 0.05,
		Batch: 96, Spaces: []int{480, 960, 1920, 4800, 9600}, Batches: []int{24, 48, 96, 192, 384},
	}
	if short {
		s.Scenes, s.Spaces, s.Batches = 480, []int{480}, []int{24, 96}
	}
	s.Scenes *= scale
	return s
}

// run counts in clean and in noisy data.
func (s falseNegativeSettings) run(ctx context.Context, j Job) ([]evidence.Measure, error) {
	first, err := j.Shelf.model(ctx, j.Worker, s.First, j.Log)
	if err != nil {
		return nil, err
	}
	var out []evidence.Measure
	for _, data := range []string{"clean", "noisy"} {
		o := scenes.Defaults()
		o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.FalseNegatives = j.Seed, s.Scenes, 1, s.First.Side, 1000, s.FalseNegatives
		if data == "noisy" {
			o.WrongShare, o.IrrelevantShare = s.Wrong, s.Irrelevant
		}
		found, err := s.count(ctx, j, o, first, data)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// count groups the scenes in every way.
func (s falseNegativeSettings) count(ctx context.Context, j Job, o scenes.Options, first, data string) (out []evidence.Measure, err error) {
	d, g, err := embedded(ctx, j, o, first)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	sample := func(strategy grouper.Strategy, n, space int) (falseNegatives, error) {
		var f falseNegatives
		o := grouper.Defaults()
		o.Seed, o.Strategy, o.Epochs, o.BatchSize, o.SearchSpace, o.QueueSize = j.Seed, strategy, 1, n, space, 0
		o.Candidates, o.Texts, o.Workers = 1, grouper.TextNone, 2
		err := g.batches(ctx, o, func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
			f.add(d.truth(b))
			return nil, nil
		})
		return f, err
	}
	for _, n := range s.Batches {
		f, err := sample(grouper.StrategyRandom, n, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, f.measures("random "+data, n)...)
		if n == s.Batch { // GRIT then has nothing to choose from
			out = append(out, f.measures("GRIT "+data, n)...)
		}
	}
	for _, space := range s.Spaces {
		f, err := sample(grouper.StrategyGRIT, s.Batch, space)
		if err != nil {
			return nil, err
		}
		j.Log(fmt.Sprintf("%s, GRIT, M = %d: %.2f %% by image, %.2f %% by text", data, space, 100*share(f.byImage, f.images), 100*share(f.byText, f.texts)))
		out = append(out, f.measures("GRIT "+data, space)...)
	}
	return out, nil
}

// embedded generates scenes and embeds them. The group has no neighbours to speak of.
func embedded(ctx context.Context, j Job, o scenes.Options, weights string) (_ *data, _ *group, err error) {
	d, err := generateIn(ctx, j.Dir, o, 0)
	if err != nil {
		return nil, nil, err
	}
	embeddings, err := embed(ctx, j.Worker, weights, d.images, d.pairs)
	if err != nil {
		return nil, nil, errors.Join(err, d.close())
	}
	few := indexer.DefaultOptions()
	few.Seed, few.K, few.K1, few.K2, few.Clusters, few.Iterations = j.Seed, 1, 1, 1, 1, 1
	g, err := index(ctx, embeddings, few)
	if err != nil {
		return nil, nil, errors.Join(err, d.close())
	}
	return d, g, nil
}

// falseNegatives counts hardest negatives and, of these, the false ones.
type falseNegatives struct {
	images, byImage int // hardest texts of images, and those that are true of their image
	texts, byText   int // hardest images of texts, and those of which their text is true
	pairs, matching int // all pairs of different samples, and those that match
}

// add adds the counts of a mini-batch, by the first candidate of each pair and direction. holds tells whether the text
// of a sample is true of the image of another.
func (f *falseNegatives) add(b *schemas.Batch, holds func(image, text int) bool) {
	m := int(b.M)
	for k := range b.Samples {
		if text := b.I2T[k*m]; text >= 0 {
			f.images++
			if holds(k, int(text)) {
				f.byImage++
			}
		}
		if image := b.T2I[k*m]; image >= 0 {
			f.texts++
			if holds(int(image), k) {
				f.byText++
			}
		}
		for other := range b.Samples {
			if other == k {
				continue
			}
			f.pairs++
			if holds(k, other) {
				f.matching++
			}
		}
	}
}

func (f *falseNegatives) measures(arm string, x int) []evidence.Measure {
	return []evidence.Measure{
		{Arm: arm, X: float64(x), Name: "image", Value: share(f.byImage, f.images)},
		{Arm: arm, X: float64(x), Name: "text", Value: share(f.byText, f.texts)},
		{Arm: arm, X: float64(x), Name: "pairs", Value: share(f.matching, f.pairs)},
	}
}

// truth returns a mini-batch with a function that tells which texts are true of which images.
func (d *data) truth(b *schemas.Batch) (*schemas.Batch, func(image, text int) bool) {
	if d.fits != nil {
		return b, func(image, text int) bool { return d.fits(b.Samples[image].ImageID, b.Samples[text].Text) }
	}
	shown, said := make([]scenes.Scene, len(b.Samples)), make([]scenes.Statement, len(b.Samples))
	for i, s := range b.Samples {
		shown[i], said[i] = d.shows[s.ImageID], d.says[s.Text]
	}
	return b, func(image, text int) bool { return said[text].Holds(shown[image]) }
}
