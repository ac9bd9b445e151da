package service

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/onelane"
	"github.com/pairstream/pairstream/schemas"
)

// TestALateEpochIsResumedLikeAnEarlyOne kills the owner amid epochs 1, 10 and 19 of 20. Its successor reads as many
// records again in each of them before it makes the next batch. It has to know the members of the open groups, and at
// most two epochs of batches and features.
func TestALateEpochIsResumedLikeAnEarlyOne(t *testing.T) {
	const epochs, pairs, batches, groups = 20, 35, 5, 2
	for name, test := range map[string]struct {
		change func(*grouper.Options)
		open   int // groups at a time
		before int // epochs that are read again
	}{
		"grit":           {func(*grouper.Options) {}, 1, 1},
		"grit, a window": {func(o *grouper.Options) { o.EpochOrder, o.EpochGroups = grouper.OrderLane, groups }, groups, 2},
		"encoder's":      {func(o *grouper.Options) { o.Features = grouper.SourceEncoder }, 1, 0},
		"random":         {func(o *grouper.Options) { o.Strategy = grouper.StrategyRandom }, 1, 0},
		"b3":             {func(o *grouper.Options) { o.Strategy, o.Skip = grouper.StrategyB3, 2 }, 1, 0},
		"random, a window": {func(o *grouper.Options) {
			o.Strategy, o.EpochOrder, o.EpochGroups = grouper.StrategyRandom, grouper.OrderLane, groups
		}, groups, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			o.Epochs = epochs
			test.change(&o)
			for _, epoch := range []int{1, 10, 19} {
				l := onelane.New(t, testLane)
				for seq := range int64(groups) {
					addGroup(t, l, seq, pairs)
				}
				l.Append(schemas.Groups, &schemas.Seal{Final: true})
				train(l)
				if !l.Run(spec(t, o), epoch*batches*test.open+batches/2) {
					t.Fatal("the owner did not die")
				}
				l.Run(spec(t, o), 1)
				members := test.open * (1 + 1 + pairs)
				if most := members + 1 + 2*test.before*batches*test.open + batches; l.Read > most {
					t.Errorf("killed in epoch %d: %d records are read again, want at most %d", epoch, l.Read, most)
				}
			}
		})
	}
}

// TestNoCrashChangesALateEpoch kills the owner before each record of five epochs. The trainer leaves samples out, for
// one epoch or for the rest, and writes blocks that are refused.
func TestNoCrashChangesALateEpoch(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*grouper.Options)
		batches int
	}{
		"by group": {func(*grouper.Options) {}, 5 * (3 + 1 + 2)},
		"by lane":  {func(o *grouper.Options) { o.EpochOrder, o.EpochGroups = grouper.OrderLane, 2 }, 5 * (3 + 1 + 2)},
		"jest":     {func(o *grouper.Options) { o.Strategy, o.Filter = grouper.StrategyJEST, 0.5 }, 3 + 1 + 2 + 4*(2+1+1)},
		"jest by lane": {func(o *grouper.Options) {
			o.Strategy, o.Filter, o.EpochOrder, o.EpochGroups = grouper.StrategyJEST, 0.5, grouper.OrderLane, 2
		}, 3 + 1 + 2 + 4*(2+1+1)},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			o.Epochs = 5
			test.change(&o)
			fresh := func() *onelane.Log {
				l := onelane.New(t, testLane)
				for seq, n := range []int{19, 8, 11} {
					addGroup(t, l, int64(seq), n)
				}
				l.Append(schemas.Groups, &schemas.Seal{Final: true})
				leaveOut(l)
				return l
			}
			whole := fresh()
			whole.Run(spec(t, o), -1)
			want, letters := whole.Values(schemas.Batches), len(whole.Letters)
			if n := test.batches + 1; len(want) != n || letters == 0 {
				t.Fatalf("%d records, want %d; %d letters", len(want), n, letters)
			}
			for limit := range want {
				l := fresh()
				if !l.Run(spec(t, o), limit) {
					t.Fatalf("the owner did not die before record %d", limit)
				}
				l.Run(spec(t, o), 3)
				l.Run(spec(t, o), -1)
				if !slices.EqualFunc(l.Values(schemas.Batches), want, bytes.Equal) || len(l.Letters) != letters {
					t.Errorf("a crash before record %d changed the records, or %d letters became %d", limit, letters, len(l.Letters))
				}
			}
		})
	}
}

// leaveOut has batches answered by features without some of the samples. A pair in ten has none from some epoch on, and
// another in ten none in some epoch. Before some blocks there is one that is refused.
func leaveOut(l *onelane.Log) {
	l.Answer = func(_ schemas.Topic, r schemas.Record) {
		b, ok := r.(*schemas.Batch)
		if !ok {
			return
		}
		f := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: testDim, Step: 1}
		for _, s := range b.Samples {
			draw := rng.New(11, "left out", b.Group.Seq, int64(s.Position))
			gone, from := draw.IntN(10), draw.IntN(5)
			if gone == 0 && int(b.Epoch) >= from || gone == 1 && int(b.Epoch) == from {
				continue
			}
			f.Positions = append(f.Positions, s.Position)
			f.V = append(f.V, unit(int64(b.Epoch), int64(s.Position), 2)...)
			f.T = append(f.T, unit(int64(b.Epoch), int64(s.Position), 3)...)
		}
		if b.Sequence == 1 {
			wide := schemas.NewFloat16s(append(unit(1).Floats(), 0))
			l.Append(schemas.Features, &schemas.FeatureBlock{
				Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: testDim + 1, Step: 1, Positions: schemas.Int32s{0}, V: wide, T: wide,
			})
		}
		l.Append(schemas.Features, f)
	}
}
