package experiments

import (
	"context"
	"encoding/binary"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
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

	probabilities []auc.Judgement
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

// verdicts lets Con-D judge the hardest candidates of every pair in an epoch of GRIT's mini-batches. Its own vectors
// group the pairs.
func (s *setup) verdicts(ctx context.Context, cond string) (*Connections, error) {
	g, err := s.group(ctx, cond)
	if err != nil {
		return nil, err
	}
	return s.judge(ctx, g, cond)
}

// conD is Con-D, with words and images of its own.
type conD struct {
	*discriminator.Discriminator
	*dataset.Loader
	model *model.Model
}

// openCond opens Con-D. The caller frees the model.
func (s *setup) openCond(ctx context.Context, path string) (c conD, err error) {
	if c.model, err = model.Load(ctx, s.worker, path, model.LoadOptions{Frozen: true}); err != nil {
		return c, err
	}
	matcher, err := model.NewMatcher(ctx, c.model)
	if err == nil {
		c.Discriminator, err = discriminator.New(matcher, discriminator.Options{})
	}
	if err == nil {
		c.Loader, err = s.loader(c.model)
	}
	if err != nil {
		c.model.Free()
	}
	return c, err
}

// input returns what Con-D is shown of a mini-batch.
func (c conD) input(ctx context.Context, b *schemas.Batch) (discriminator.Input, error) {
	pixels, lost, err := c.Images(ctx, b, nil)
	return discriminator.Input{Pixels: pixels, IDs: c.IDs(b), Masked: lost}, err
}

// all scores every candidate, with the images of training.
func (c conD) all(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	in.IDs = c.IDs(b) // Con-D has a vocabulary of its own
	return c.Score(ctx, b, in)
}

func newConnections(seed uint64, thresholds ...float64) *Connections {
	out := &Connections{Seed: seed}
	for _, high := range thresholds {
		out.Above = append(out.Above, Verdict{High: high})
	}
	return out
}

func (s *setup) judge(ctx context.Context, g *group, cond string) (*Connections, error) {
	return s.judgeCandidates(ctx, g, cond, s.sampling(grouper.StrategyGRIT, s.sizes.FirstBatch, 1, min(judged, s.sizes.FirstBatch-1)))
}

// judgeCandidates lets Con-D judge all candidates of a group's mini-batches.
func (s *setup) judgeCandidates(ctx context.Context, g *group, cond string, o grouper.Options) (*Connections, error) {
	con, err := s.openCond(ctx, cond)
	if err != nil {
		return nil, err
	}
	defer con.model.Free()
	out := newConnections(s.seed, 0.5, trainer.MAFA().ECM.High, 0.9, 0.95)
	err = g.batches(ctx, o, func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
		in, err := con.input(ctx, b)
		if err != nil {
			return nil, err
		}
		scored, err := con.Score(ctx, b, in)
		if err == nil {
			s.count(out, scored)
		}
		return nil, err
	})
	out.finish()
	out.AUC, out.probabilities = auc.Of(out.probabilities), nil
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
	c.probabilities = append(c.probabilities, auc.Judgement{P: p, True: holds})
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

// finish computes the shares when everything is counted.
func (c *Connections) finish() {
	for i := range c.Above {
		v := &c.Above[i]
		v.Precision, v.Recall = share(v.True, v.Confirmed), share(v.True, c.True)
	}
}

// judge names who takes Con-D's place in an arm of X3.
type judge struct {
	// Oracle confirms exactly what is true.
	Oracle bool `json:"oracle,omitempty"`
	// Coin confirms at random. It finds as many of the true candidates as Con-D does in its arm, and confirms so many of
	// the others that its connections have this precision. As [asCond] and [blind] it takes Con-D's own, or that of all
	// candidates.
	Coin float64 `json:"coin,omitempty"`
	// None confirms nothing: the arm has the candidates of Con-D's and no connection.
	None bool `json:"none,omitempty"`
	// Words confirms captions that have the words of the picture's own caption, without a model.
	Words bool `json:"words,omitempty"`
}

const (
	asCond = -1
	blind  = -2
)

// coin confirms a share of the candidates that are true, and a share of the others.
type coin struct{ ofTrue, ofOthers float64 }

// coin returns the coin of a judge, after what Con-D did in an arm of its own.
func (j judge) coin(cond *Connections) coin {
	if j.Oracle {
		return coin{1, 0}
	}
	if j.None {
		return coin{}
	}
	did, base := cond.Above[0], share(cond.True, cond.Candidates)
	precision := j.Coin
	switch j.Coin {
	case asCond:
		precision = did.Precision
	case blind:
		precision = base
	}
	c := coin{ofTrue: did.Recall}
	if precision > 0 && base < 1 {
		c.ofOthers = min(did.Recall*base*(1-precision)/(precision*(1-base)), 1)
	}
	return c
}

// toss scores every candidate 1 or 0. A pair of an image and a caption has one verdict in all epochs, as Con-D's nearly
// is.
func (s *setup) toss(c coin) score {
	return func(_ context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
		out := &schemas.ScoredBatch{
			Batch: *b, Masked: in.Masked, ProbI2T: make(schemas.Floats32, len(b.I2T)), ProbT2I: make(schemas.Floats32, len(b.T2I)),
		}
		for k := range b.I2T {
			anchor := int32(k / int(b.M))
			out.ProbI2T[k] = s.tossOne(c, b, anchor, b.I2T[k])
			out.ProbT2I[k] = s.tossOne(c, b, b.T2I[k], anchor)
		}
		return out, nil
	}
}

func (s *setup) tossOne(c coin, b *schemas.Batch, image, text int32) float32 {
	if image < 0 || text < 0 {
		return 0
	}
	confirmed := c.ofOthers
	if s.data.matches(b.Samples[image].ImageID, b.Samples[text].Text) {
		confirmed = c.ofTrue
	}
	key := func(id []byte) int64 { return int64(binary.LittleEndian.Uint64(id)) }
	if rng.New(s.seed, "coin", key(b.Samples[image].ImageID[:]), key(b.Samples[text].ID[:])).Float64() < confirmed {
		return 1
	}
	return 0
}

// counted counts what a score confirms, against the truth.
func (s *setup) counted(to *Connections, by score) score {
	return func(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
		out, err := by(ctx, b, in)
		if err == nil {
			s.count(to, out)
		}
		return out, err
	}
}

// confirmed returns what is reported of an arm's connections. A precision of none is left out.
func (c *Connections) confirmed(arm string) []evidence.Measure {
	v := c.Above[0]
	out := []evidence.Measure{{Arm: arm, Name: "recall", Value: v.Recall}}
	if v.Confirmed > 0 {
		out = append(out, evidence.Measure{Arm: arm, Name: "precision", Value: v.Precision})
	}
	return out
}

// newJudges returns X3. Its scenes have circles of eight colours: every caption is true of a few dozen other scenes.
func newJudges(short bool, scale int) comparison {
	c := comparison{Sizes: trainingSizes(short, scale), Kinds: scenes.Kinds{Shapes: 1, Objects: 2, Large: true, Plain: true}, verdicts: true}
	all := trainer.MAFA().ECM
	c.Arms = []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		{Name: "grit", Strategy: grouper.StrategyGRIT, Targets: oneHot},
		{Name: "con-d", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all},
		{Name: "oracle", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all, Judge: judge{Oracle: true}},
		{Name: "coin con-d", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all, Judge: judge{Coin: asCond}},
		{Name: "coin 0.5", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all, Judge: judge{Coin: 0.5}},
		{Name: "coin 0.25", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all, Judge: judge{Coin: 0.25}},
		{Name: "coin blind", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: all, Judge: judge{Coin: blind}},
	}
	return c
}
