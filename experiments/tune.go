package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/scenes"
)

// fineTuning says how every arm's model is fine-tuned for retrieval before it is measured once more, as the papers measure
// theirs: on random mini-batches of other scenes, whose captions are all true, with one-hot targets of ITC.
type fineTuning struct {
	Scenes int     `json:"scenes"`
	Epochs int     `json:"epochs"`
	Batch  int     `json:"batch"`
	Rate   float64 `json:"rate"`
}

// tuningSeed is added to a run's seed for the scenes to fine-tune on. No run has such a seed.
const tuningSeed = 10_000

// fineTune returns the weights that each of the given ones becomes.
func (f fineTuning) fineTune(ctx context.Context, s *setup, kinds scenes.Kinds, weights []string) (out []string, err error) {
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.Kinds = s.seed+tuningSeed, f.Scenes, 1, side, 1000, kinds
	d, err := generate(ctx, filepath.Join(s.dir, "to-fine-tune"), o, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.closeImages()) }()
	on := *s
	on.data, on.sizes = d, Sizes{Batch: f.Batch, Space: 1, Epochs: f.Epochs}
	g, err := newGroup(ctx, s.worker, weights[0], d.images, d.pairs, s.seed)
	if err != nil {
		return nil, err
	}
	options := arm{Targets: oneHot}.options(on.training(on.steps()))
	options.MLMWeight, options.Schedule.Rate, options.Schedule.Min, options.Schedule.WarmupRate = 0, f.Rate, f.Rate/20, f.Rate/10
	for i, w := range weights {
		tuned := filepath.Join(s.dir, fmt.Sprintf("tuned-%d.safetensors", i))
		err := on.train(ctx, w, g, training{
			name: "fine-tuning", sampling: on.sampling(grouper.StrategyRandom, f.Batch, f.Epochs, 0), options: options, score: unscored,
		}, tuned)
		if err != nil {
			return nil, fmt.Errorf("fine-tuning model %d: %w", i, err)
		}
		out = append(out, tuned)
	}
	return out, nil
}
