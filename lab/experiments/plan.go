package experiments

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/models/partial"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

// Plan is an experiment at a size.
type Plan struct {
	ID       string
	Settings any // what results of different runs must have in common
	Run      func(ctx context.Context, j Job) ([]evidence.Measure, error)
}

// NewPlan returns the plan of an experiment. Short makes it small enough for a test of the way, not of the claims.
// Scale multiplies the number of scenes.
func NewPlan(id string, short bool, scale int) (Plan, error) {
	if scale < 1 {
		return Plan{}, fmt.Errorf("scale is %d, want 1 or more", scale)
	}
	var settings interface {
		run(context.Context, Job) ([]evidence.Measure, error)
	}
	switch id {
	case "x1":
		settings = falseNegativeSizes(short, scale)
	case "x2", "x3", "x4", "x5", "x6", "x14":
		settings = newComparison(id, short, scale)
	case "x7":
		settings = newPositives(short, scale)
	case "x8":
		settings = neighbourSizes(short, scale)
	case "x9":
		settings = photographSizes(short)
	case "x10":
		settings = newCosts(short, scale)
	case "x11":
		settings = guardSizes(short, scale)
	case "x12":
		settings = photographGuardSizes(short)
	case "x13":
		settings = judgedSizes(short)
	case "x15":
		settings = newEmojiWorld(short)
	case "x16":
		settings = newPhotographWorld(short)
	default:
		return Plan{}, fmt.Errorf("there is no way to run experiment %q", id)
	}
	return Plan{id, settings, settings.run}, nil
}

// trainingSizes returns the sizes of the experiments that train for every seed.
func trainingSizes(short bool, scale int) Sizes {
	s := DefaultSizes()
	if short {
		s = Sizes{Scenes: 240, HeldOut: 60, FirstSteps: 10, CondSteps: 10, FirstBatch: 16, Batch: 8, Space: 3, Epochs: 1}
	}
	s.Scenes *= scale
	return s
}

// measures returns what is reported of Con-D's verdicts. A precision of no connections is left out.
func (c *Connections) measures() []evidence.Measure {
	out := []evidence.Measure{{Arm: "all", Name: "precision", Value: share(c.True, c.Candidates)}, {Arm: "Con-D", Name: "auc", Value: c.AUC}}
	for _, v := range c.Above {
		if v.Confirmed > 0 {
			out = append(out, evidence.Measure{Arm: "Con-D", X: v.High, Name: "precision", Value: v.Precision})
		}
		out = append(out, evidence.Measure{Arm: "Con-D", X: v.High, Name: "recall", Value: v.Recall})
	}
	return out
}

// share returns a part of a whole. Of nothing it is 0.
func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

// Shelf keeps first models that several seeds share. The zero value with a folder is ready.
type Shelf struct {
	Dir  string
	mu   sync.Mutex
	seen map[string]*sight // by folder of photographs
}

// FirstModel says how a shared first model is made.
type FirstModel struct {
	Preset         string  `json:"preset"`
	Side           int     `json:"side"` // of its pictures, in pixels
	Seed           uint64  `json:"seed"` // no seed of tuning or of reports
	Scenes         int     `json:"scenes"`
	Captions       int     `json:"captions"`
	FalseNegatives float64 `json:"false_negatives"`
	Steps          int64   `json:"steps"`
	Batch          int     `json:"batch"`
	// Matching trains the matching head as well, for a Con-D or a start that has one.
	Matching   bool         `json:"matching,omitempty"`
	Candidates int          `json:"candidates,omitempty"` // of a pair's hard negatives; 0: all others
	Kinds      scenes.Kinds `json:"kinds,omitzero"`
	// Space is the search space, in mini-batches of 48, with which GRIT's mini-batches of the same pairs then make the
	// negatives harder, for so many epochs; 0: they do not.
	Space  int `json:"space,omitempty"`
	Epochs int `json:"epochs,omitempty"`
	// Settle is the number of epochs of random mini-batches behind these. GRIT's false negatives have taught the matching
	// head to doubt true pairs; random ones have few, so that it trusts them again.
	Settle int `json:"settle,omitempty"`
}

// path returns the file of the model's weights.
func (f FirstModel) path(dir string) string {
	kinds := ""
	if f.Kinds != (scenes.Kinds{}) || f.Matching {
		kinds = fmt.Sprintf("-%d.%d.%d.%t.%t-%t-%d-%dx%dx%d", f.Kinds.Shapes, f.Kinds.Colours, f.Kinds.Objects, f.Kinds.Large, f.Kinds.Plain,
			f.Matching, f.Candidates, f.Space, f.Epochs, f.Settle)
	}
	if f.Kinds.Partial {
		kinds += "-partial"
	}
	return filepath.Join(dir, fmt.Sprintf("first-%s-%d-%d-%dx%d-%g-%dx%d%s.safetensors",
		f.Preset, f.Side, f.Seed, f.Scenes, f.Captions, f.FalseNegatives, f.Steps, f.Batch, kinds))
}

// model returns the weights of a first model. It trains the model if they are not there.
func (s *Shelf) model(ctx context.Context, w *torch.Worker, f FirstModel, log func(string)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := f.path(s.Dir)
	if weights := f.known(); weights != nil {
		if err := os.MkdirAll(s.Dir, 0o755); err != nil {
			return "", fmt.Errorf("making the folder of first models: %w", err)
		}
		return path, atomicfile.Write(path, 0o644, func(w io.Writer) error {
			_, err := w.Write(weights)
			return err
		})
	}
	return path, f.train(ctx, w, path, log)
}

// known returns the weights of the models that the repository brings. They need not be trained again.
func (f FirstModel) known() []byte {
	pairs := modelPairs()
	switch f {
	case pairs[0].first:
		return models.First
	case pairs[0].cond:
		return models.ConD
	case pairs[1].first:
		return partial.First
	case pairs[1].cond:
		return partial.ConD
	}
	return nil
}
