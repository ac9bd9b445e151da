package experiments

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Connections compares Con-D's verdicts with the truth.
type Connections struct {
	Seed       uint64    `json:"seed"`
	Candidates int       `json:"candidates"` // hardest of every pair and direction
	True       int       `json:"true"`       // of these: captions that are true of the picture
	Above      []Verdict `json:"above"`      // by threshold
	AUC        float64   `json:"auc"`        // chance that a true candidate has a higher probability than another

	probabilities []eval.Judgement
}

// Verdict is the result at one threshold.
type Verdict struct {
	High      float64 `json:"high"`
	Confirmed int     `json:"confirmed"` // candidates with a probability above High
	True      int     `json:"true"`      // of these
	Precision float64 `json:"precision"` // true of confirmed
	Recall    float64 `json:"recall"`    // confirmed of true
}

const (
	// condCandidates is small. Of many candidates a false negative would be the hardest, and Con-D would learn to doubt
	// what is true.
	condCandidates = 2
	// judged is how many of the hardest candidates of every pair and direction Con-D judges.
	judged = 8
)

// RunConnections trains Con-D and lets it judge the hardest candidates of every pair in an epoch of GRIT's mini-batches.
func RunConnections(ctx context.Context, j Job) (out *Connections, err error) {
	// The scenes have circles of eight colours: every caption is true of a few dozen other scenes.
	s, err := j.setup(ctx, scenes.Kinds{Shapes: 1, Objects: 2, Large: true, Plain: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cond := filepath.Join(s.dir, "con-d.safetensors")
	if err := s.first(ctx, s.sizes.CondSteps, condCandidates, cond); err != nil {
		return nil, err
	}
	g, err := newGroup(ctx, s.worker, cond, s.data.images, s.data.pairs, s.seed)
	if err != nil {
		return nil, err
	}
	return s.judge(ctx, g, cond)
}

func (s *setup) judge(ctx context.Context, g *group, cond string) (*Connections, error) {
	m, err := model.Load(ctx, s.worker, cond, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	matcher, err := model.NewMatcher(ctx, m)
	if err != nil {
		return nil, err
	}
	core, err := discriminator.New(matcher, discriminator.Options{})
	if err != nil {
		return nil, err
	}
	loader, err := s.loader(m)
	if err != nil {
		return nil, err
	}
	out := &Connections{Seed: s.seed}
	thresholds := []float64{0.5, trainer.MAFA().ECM.High, 0.9, 0.95}
	for _, high := range thresholds {
		out.Above = append(out.Above, Verdict{High: high})
	}
	o := s.sampling(grouper.StrategyGRIT, s.sizes.FirstBatch, 1, min(judged, s.sizes.FirstBatch-1))
	err = g.batches(ctx, o, func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
		pixels, lost, err := loader.Images(ctx, b, nil)
		if err != nil {
			return nil, err
		}
		scored, err := core.Score(ctx, b, discriminator.Input{Pixels: pixels, IDs: loader.IDs(b), Masked: lost})
		if err == nil {
			s.count(out, scored)
		}
		return nil, err
	})
	for i := range out.Above {
		out.Above[i].finish(out.True)
	}
	out.AUC, out.probabilities = eval.AUC(out.probabilities), nil
	return out, err
}

// count counts the candidates of a batch.
func (s *setup) count(c *Connections, b *schemas.ScoredBatch) {
	for k := range b.I2T {
		anchor := int32(k / int(b.M))
		s.countOne(c, b, anchor, b.I2T[k], b.ProbI2T[k])
		s.countOne(c, b, b.T2I[k], anchor, b.ProbT2I[k])
	}
}

func (s *setup) countOne(c *Connections, b *schemas.ScoredBatch, image, text int32, p float32) {
	if image < 0 || text < 0 {
		return
	}
	holds := s.data.matches(b.Samples[image].ImageID, b.Samples[text].Text)
	c.Candidates++
	if holds {
		c.True++
	}
	c.probabilities = append(c.probabilities, eval.Judgement{P: p, True: holds})
	for i := range c.Above {
		v := &c.Above[i]
		if (trainer.ECMOptions{High: v.High}).ClassOf(p) != trainer.Connection {
			continue
		}
		v.Confirmed++
		if holds {
			v.True++
		}
	}
}

func (v *Verdict) finish(all int) {
	v.Precision = float64(v.True) / float64(max(v.Confirmed, 1))
	v.Recall = float64(v.True) / float64(max(all, 1))
}
