package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// train makes the weights unless they are there.
func (f FirstModel) train(ctx context.Context, w *torch.Worker, path string, log func(string)) (err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of first models: %w", err)
	}
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.FalseNegatives = f.Seed, f.Scenes, f.Captions, f.Side, 1000, f.FalseNegatives
	o.Kinds = f.Kinds
	d, err := generateIn(ctx, filepath.Dir(path), o, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	made := filepath.Join(d.dir, "weights.safetensors")
	weights := bootstrap.Weights{ITC: 1} // its vectors alone are used
	if f.Matching {
		weights.ITM = 1
	}
	err = bootstrap.Train(ctx, w, d.images, d.train, bootstrap.Options{
		Preset: f.Preset, Vocab: d.vocab, Steps: f.Steps, Batch: f.Batch, Rate: firstRate, Seed: f.Seed,
		Augment: augmentation(), Weights: weights, Candidates: f.Candidates,
		Report: progress(log, "first model", f.Steps),
	}, made)
	if err == nil && f.Space > 0 {
		if err = f.further(ctx, w, d, made, grouper.StrategyGRIT, f.Epochs, log); err == nil {
			err = f.further(ctx, w, d, made, grouper.StrategyRandom, f.Settle, log)
		}
	}
	if err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return fmt.Errorf("keeping the first model: %w", err)
	}
	return nil
}

// further trains weights on mini-batches of the same pairs, each of which takes its hardest negatives from all others.
func (f FirstModel) further(ctx context.Context, w *torch.Worker, d *data, weights string, strategy grouper.Strategy, epochs int, log func(string)) error {
	const batch = 48
	s := &setup{
		sizes: Sizes{Batch: batch, Space: f.Space, Epochs: epochs}, seed: f.Seed, worker: w, data: d, preset: f.Preset,
		augment: augmentation(), log: log,
	}
	g, err := s.group(ctx, weights)
	if err != nil {
		return err
	}
	options := arm{Targets: oneHot}.options(s.training(s.steps()))
	options.MLMWeight = 0
	return s.train(ctx, weights, g, training{
		name: string(strategy), sampling: s.sampling(strategy, batch, epochs, 0), options: options, score: unscored,
	}, weights)
}

// cardSeed draws the scenes on which the card of the models measures them. No report and no training uses it.
const cardSeed = 103

// modelPair is a first model and a Con-D of one world, with which the demo or an experiment begins.
type modelPair struct {
	folder      string // below that of all
	first, cond FirstModel
	space       int // search space of the card's mini-batches, in mini-batches
	after       string
}

// modelPairs returns the pairs that the repository brings: that of X2, and that of the demo, which X14 has as well.
func modelPairs() []modelPair {
	x14 := newPartial(false, 1).Regime
	return []modelPair{
		{"", firstModel(), condModel(), 10, "[precision.md](precision.md) tells what the wrong connections above 0.9 of the Con-D of this release are.\n"},
		{"partial", x14.First.version(0), x14.Conds[""].version(2), 50, ""},
	}
}

// MakeModels trains the models with which the demo and X2 begin, into first.safetensors and con-d.safetensors of a
// folder and of partial below it, and writes their cards beside them. The same processor makes the same bytes.
func MakeModels(ctx context.Context, j Job, dir string) error {
	for _, pair := range modelPairs() {
		in := filepath.Join(dir, pair.folder)
		for name, m := range map[string]FirstModel{"first.safetensors": pair.first, "con-d.safetensors": pair.cond} {
			path := filepath.Join(in, name)
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("making first models: %w", err)
			}
			if err := m.train(ctx, j.Worker, path, j.Log); err != nil {
				return err
			}
		}
		if err := pair.writeCard(ctx, j, in); err != nil {
			return err
		}
	}
	return nil
}

// writeCard measures the models of a folder on scenes that neither has seen, and writes README.md.
func (pair modelPair) writeCard(ctx context.Context, j Job, dir string) (err error) {
	j.Seed, j.Sizes = cardSeed, Sizes{Scenes: 2900, HeldOut: 500, FirstBatch: 48, Batch: 48, Space: pair.space, Epochs: 1}
	s, err := j.setup(ctx, pair.first.Kinds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	first, cond := filepath.Join(dir, "first.safetensors"), filepath.Join(dir, "con-d.safetensors")
	ask := reranked
	if ask.Mining, err = s.hardestOfAll(ctx, first); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# First models\n\nMade by `make first-models`. Measured on 500 scenes that neither has seen, with the first model's hardest mismatches:\n\n" +
		"| model | AUC of ITM, % | false alarms, % | missed, % | R@1 by ITC, % | R@1 re-ranked, % | made of |\n|---|---|---|---|---|---|---|\n")
	for _, m := range []struct {
		name, path string
		made       FirstModel
	}{{"first", first, pair.first}, {"con-d", cond, pair.cond}} {
		r, err := s.evaluate(ctx, m.path, ask)
		if err != nil {
			return err
		}
		made, err := json.Marshal(m.made)
		if err != nil {
			return fmt.Errorf("encoding how %s was made: %w", m.name, err)
		}
		fmt.Fprintf(&b, "| %s |", m.name)
		for _, x := range matched(m.name, r) {
			fmt.Fprintf(&b, " %.1f |", x.Value)
		}
		fmt.Fprintf(&b, " `%s` |\n", made)
	}
	c, err := s.cardOfCond(ctx, first, cond)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nCon-D on the two hardest candidates of every pair in GRIT's mini-batches, N = 48, M = %d. %.1f %% of them are true, and its "+
		"AUC among them is %.3f:\n\n| above | precision | recall |\n|---|---|---|\n", 48*pair.space, 100*share(c.True, c.Candidates), c.AUC)
	for _, v := range c.Above {
		fmt.Fprintf(&b, "| %.2f | %.3f | %.3f |\n", v.High, v.Precision, v.Recall)
	}
	if pair.after != "" {
		b.WriteString("\n" + pair.after)
	}
	return atomicfile.Write(filepath.Join(dir, "README.md"), 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// cardOfCond lets Con-D judge candidates of mini-batches that the first model's vectors form.
func (s *setup) cardOfCond(ctx context.Context, first, cond string) (*Connections, error) {
	g, err := s.group(ctx, first)
	if err != nil {
		return nil, err
	}
	return s.judgeCandidates(ctx, g, cond, s.sampling(grouper.StrategyGRIT, s.sizes.Batch, 1, 2))
}
