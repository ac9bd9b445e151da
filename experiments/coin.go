package experiments

import (
	"context"
	"encoding/binary"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// judge names who takes Con-D's place in an arm of X3.
type judge struct {
	// Oracle confirms exactly what is true.
	Oracle bool `json:"oracle,omitempty"`
	// Coin confirms at random. It finds as many of the true candidates as Con-D does in its arm, and confirms so many of the
	// others that its connections have this precision. As [asCond] and [blind] it takes Con-D's own, or that of all candidates.
	Coin float64 `json:"coin,omitempty"`
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

// toss scores every candidate 1 or 0. A pair of an image and a caption has one verdict in all epochs, as Con-D's nearly is.
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
