package grouper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// turned is a planner that orders the pairs backwards, and gives each the next of its mini-batch as candidates.
func turned(_ context.Context, p Pairs) (c Chosen, err error) {
	n := len(p.Image)
	for i := range n {
		c.Order = append(c.Order, int32(n-1-i))
	}
	c.I2T, c.T2I = make([]int32, n*p.Candidates), make([]int32, n*p.Candidates)
	for start := 0; start < n; start += p.BatchSize {
		batch := c.Order[start:min(start+p.BatchSize, n)]
		for i, at := range batch {
			for k := range p.Candidates {
				other := batch[(i+k+1)%len(batch)]
				if p.Image[other] == p.Image[at] || slices.Contains(c.I2T[int(at)*p.Candidates:int(at)*p.Candidates+k], other) {
					other = -1
				}
				c.I2T[int(at)*p.Candidates+k], c.T2I[int(at)*p.Candidates+k] = other, other
			}
		}
	}
	return c, nil
}

func ownOptions(source Source) Options {
	o := testOptions("own:mine:turned").Normal()
	o.Features, o.Texts = source, TextNone
	return o
}

// A planner gets the encoder's vectors in every epoch, and the learner's after the first.
func TestAPlannerOrdersTheMiniBatches(t *testing.T) {
	for source, learns := range map[Source]bool{SourceEncoder: false, SourceTraining: true} {
		t.Run(string(source), func(t *testing.T) {
			o := ownOptions(source)
			var asked []Pairs
			lane := must.Get(NewLane(o, testLane))(t)
			lane.PlanWith(func(ctx context.Context, p Pairs) (Chosen, error) {
				asked = append(asked, p)
				return turned(ctx, p)
			})
			l := newLog()
			l.addGroup(0, 37, 2)
			all := batches(drive(t, lane, l))
			if len(asked) != o.Epochs || len(all) != o.Epochs*((37+o.BatchSize-1)/o.BatchSize) {
				t.Fatalf("%d questions and %d mini-batches of %d epochs", len(asked), len(all), o.Epochs)
			}
			for epoch, p := range asked {
				if p.Epoch != epoch || p.Encoder == nil || p.Encoder.Dim() != testDim || (p.Learner != nil) != (learns && epoch > 0) ||
					len(p.Similar) != 37*p.K1 || len(p.Cluster) != 37 {
					t.Errorf("epoch %d: asked with %+v", epoch, p)
				}
			}
			for _, b := range all {
				must.Do(t, validate(b))
				first := int32(36 - int(b.Sequence)*o.BatchSize)
				for i, s := range b.Samples {
					if s.Position != first-int32(i) {
						t.Fatalf("sample %d of mini-batch %d is pair %d", i, b.Sequence, s.Position)
					}
					var want []int32
					for k := range o.Candidates {
						if other := int32((i + k + 1) % len(b.Samples)); !slices.Contains(s.Partners, other) && int(other) != i && !slices.Contains(want, other) {
							want = append(want, other)
						}
					}
					for len(want) < o.Candidates {
						want = append(want, -1)
					}
					row := func(all []int32) []int32 { return all[i*o.Candidates : (i+1)*o.Candidates] }
					if !slices.Equal(row(b.I2T), want) || !slices.Equal(row(b.T2I), want) {
						t.Fatalf("candidates of sample %d are %d and %d, want %d", i, row(b.I2T), row(b.T2I), want)
					}
				}
				if b.Strategy != schemas.StrategyOwn {
					t.Errorf("strategy %q", b.Strategy)
				}
			}
		})
	}
}

func validate(b *schemas.Batch) error {
	_, err := schemas.Marshal(b)
	return err
}

func TestAWrongOrderEndsThePlan(t *testing.T) {
	failed := errors.New("no order today")
	for want, change := range map[string]func(Pairs, *Chosen) error{
		"the order has 36 positions, want each of the group's 37 pairs once": func(_ Pairs, c *Chosen) error { c.Order = c.Order[1:]; return nil },
		"the order has position 36 as its number 1, want each of 0..36 once": func(_ Pairs, c *Chosen) error { c.Order[1] = 36; return nil },
		"the order has position 37 as its number 0, want each of 0..36 once": func(_ Pairs, c *Chosen) error { c.Order[0] = 37; return nil },
		"the candidates have one direction, want both or none":               func(_ Pairs, c *Chosen) error { c.T2I = nil; return nil },
		"there are 1 candidates in a direction, want m = ":                   func(_ Pairs, c *Chosen) error { c.I2T = c.I2T[:1]; return nil },
		"pair 36 has candidate 0, which is not in its mini-batch":            func(p Pairs, c *Chosen) error { c.I2T[36*p.Candidates] = 0; return nil },
		"pair 36 has candidate 35 twice":                                     func(p Pairs, c *Chosen) error { c.I2T[36*p.Candidates+1] = 35; return nil },
		"pair 36 has itself as a candidate":                                  func(p Pairs, c *Chosen) error { c.T2I[36*p.Candidates] = 36; return nil },
		"grouping epoch 0 of group 1/0: no order today":                      func(Pairs, *Chosen) error { return failed },
		"a plan of one's own needs a function: see Lane.PlanWith":            nil,
	} {
		t.Run(want, func(t *testing.T) {
			lane := must.Get(NewLane(ownOptions(SourceEncoder), testLane))(t)
			if change != nil {
				lane.PlanWith(func(ctx context.Context, p Pairs) (Chosen, error) {
					c, _ := turned(ctx, p)
					err := change(p, &c)
					return c, err
				})
			}
			l := newLog()
			l.addGroup(0, 37, 1)
			err := driveUntilError(lane, l)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// driveUntilError gives a lane what it asks for, and returns its first error.
func driveUntilError(lane *Lane, l *log) error {
	for {
		topic := lane.Needs()
		at := l.next[topic]
		if at == len(l.records[topic]) {
			return nil
		}
		l.next[topic]++
		if err := lane.Add(context.Background(), l.input(topic, at), func(schemas.Record) error { return nil }); err != nil {
			return err
		}
	}
}

func TestOwnWantsAFunction(t *testing.T) {
	o := Defaults()
	o.Strategy = StrategyOwn
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "Strategy is own without a function") {
		t.Errorf("error %v", err)
	}
	o.Strategy = "own:mine:turned"
	if err := o.Validate(); err != nil || o.Normal().Function != "mine:turned" {
		t.Errorf("error %v, function %q", err, o.Normal().Function)
	}
}
