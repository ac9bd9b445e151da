package experiments

import (
	"math"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
)

// Con-D found 8 of 10 true candidates among 20, and confirmed 2 others.
func TestCoinsByHand(t *testing.T) {
	did := &Connections{Candidates: 20, True: 10, Above: []Verdict{{High: 0.8, Confirmed: 10, True: 8}}}
	did.finish()
	for _, c := range []struct {
		judge judge
		want  coin
	}{
		{judge{Oracle: true}, coin{1, 0}},
		{judge{Coin: asCond}, coin{0.8, 0.2}},
		{judge{Coin: 0.5}, coin{0.8, 0.8}},
		{judge{Coin: blind}, coin{0.8, 0.8}}, // half of the candidates are true
		{judge{Coin: 0.9}, coin{0.8, 0.8 / 9}},
	} {
		got := c.judge.coin(did)
		if math.Abs(got.ofTrue-c.want.ofTrue) > 1e-12 || math.Abs(got.ofOthers-c.want.ofOthers) > 1e-12 {
			t.Errorf("%+v tosses %+v, want %+v", c.judge, got, c.want)
		}
	}
	nothing := &Connections{Candidates: 20, True: 10, Above: []Verdict{{High: 0.8}}}
	nothing.finish()
	if got := (judge{Coin: asCond}).coin(nothing); got != (coin{}) {
		t.Errorf("where Con-D confirms nothing, the coin is %+v", got)
	}
}

// A coin confirms the shares that it was made for, gives a pair the same verdict every time, and leaves gaps alone.
func TestTossConfirmsItsShares(t *testing.T) {
	s := newSetup(t, 5)
	n := len(s.data.pairs)
	b := &schemas.Batch{M: int32(n - 1)}
	for i, p := range s.data.pairs {
		b.Samples = append(b.Samples, schemas.Sample{ID: p.ID, ImageID: p.ImageID, Text: p.Caption})
		for other := range n {
			if other != i {
				b.I2T, b.T2I = append(b.I2T, int32(other)), append(b.T2I, int32(other))
			}
		}
	}
	b.I2T[0] = -1
	run := func(c coin) (*schemas.ScoredBatch, *Connections) {
		counts := newConnections(s.seed, 0.8)
		scored := must.Get(s.counted(counts, s.toss(c))(t.Context(), b, discriminator.Input{}))(t)
		counts.finish()
		return scored, counts
	}
	scored, oracle := run(coin{1, 0})
	if v := oracle.Above[0]; v.Precision != 1 || v.Recall != 1 || v.True == 0 || v.True == oracle.Candidates {
		t.Errorf("the oracle has %+v of %d candidates", v, oracle.Candidates)
	}
	if scored.ProbI2T[0] != 0 || oracle.Candidates != 2*n*(n-1)-1 {
		t.Errorf("a gap is scored %g, and %d candidates count", scored.ProbI2T[0], oracle.Candidates)
	}
	_, c := run(coin{0.75, 0.25})
	others := float64(c.Above[0].Confirmed-c.Above[0].True) / float64(c.Candidates-c.True)
	if math.Abs(c.Above[0].Recall-0.75) > 0.05 || math.Abs(others-0.25) > 0.05 {
		t.Errorf("of %d true candidates %g are confirmed, and %g of the others", c.True, c.Above[0].Recall, others)
	}
	again, _ := run(coin{0.75, 0.25})
	first, _ := run(coin{0.75, 0.25})
	for k := range b.I2T {
		if again.ProbI2T[k] != first.ProbI2T[k] || again.ProbT2I[k] != first.ProbT2I[k] {
			t.Fatalf("candidate %d has two verdicts", k)
		}
	}
}

// Con-D's arm comes before the coins that follow it, and what they confirmed is measured.
func TestCoinsFollowConD(t *testing.T) {
	c := newJudges(true, 1)
	asked := false
	for _, a := range c.Arms {
		if a.Judge.Coin != 0 && !asked {
			t.Errorf("the arm %q comes before Con-D was asked", a.Name)
		}
		asked = asked || a.judged() && a.Judge == judge{}
	}
	measures := must.Get(c.run(t.Context(), newJob(t, 1)))(t)
	r := &evidence.Result{}
	r.Add(evidence.Run{Seed: 1, Measures: measures})
	for _, m := range []struct {
		arm, name string
		want      float64
	}{{"oracle", "precision", 1}, {"oracle", "recall", 1}} {
		if got := r.Interval(evidence.Point{Arm: m.arm, Name: m.name}).Mean; got != m.want {
			t.Errorf("the %s of %s is %g", m.name, m.arm, got)
		}
	}
}
