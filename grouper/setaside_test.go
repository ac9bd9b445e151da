package grouper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// threeGroups returns a log of three groups, the second of two chunks.
func threeGroups() *log {
	l := newLog()
	l.addGroup(0, 41, 1)
	l.addGroup(1, schemas.ChunkMembers+5, 1)
	l.addGroup(2, 33, 1)
	return l
}

// driveOn is drive for a log with records that do not fit: it returns what was emitted, the groups that were set aside
// and how many records were refused.
func driveOn(t *testing.T, lane *Lane, l *log) (out []schemas.Record, aside []*SetAsideError, refused int) {
	t.Helper()
	for {
		topic := lane.Needs()
		if l.next[topic] == len(l.records[topic]) {
			return out, aside, refused
		}
		at := l.next[topic]
		l.next[topic]++
		if l.records[topic][at] == nil {
			continue // it was lost
		}
		err := lane.Add(context.Background(), l.input(topic, at), func(r schemas.Record) error {
			if b, ok := r.(*schemas.Batch); ok {
				l.add(schemas.Features, train(b))
			}
			out = append(out, r)
			return nil
		})
		var given *SetAsideError
		switch {
		case errors.As(err, &given):
			aside = append(aside, given)
		case errors.Is(err, ErrUnexpected):
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
}

// TestADamagedGroupIsSetAsideAlone damages the second of three groups: the others' batches stay as they are.
func TestADamagedGroupIsSetAsideAlone(t *testing.T) {
	changed := func(l *log, at int, change func(*schemas.NeighborChunk)) {
		c := *l.records[schemas.Neighbors][at].(*schemas.NeighborChunk)
		c.Cluster, c.SE = slices.Clone(c.Cluster), slices.Clone(c.SE)
		change(&c)
		l.records[schemas.Neighbors][at] = &c
	}
	embeddingOf := func(l *log, back int) int { // of the second group, counted from its end
		return int(l.records[schemas.Groups][1].(*schemas.Group).EndSeq) - 1 - back
	}
	for name, test := range map[string]struct {
		damage func(*log)
		why    string
	}{
		"first chunk is missing": {func(l *log) { l.records[schemas.Neighbors][1] = nil }, "chunk 0 of 2 is missing"},
		"last chunk is missing":  {func(l *log) { l.records[schemas.Neighbors][2] = nil }, "chunk 1 of 2 is missing"},
		"all chunks are missing": {func(l *log) { l.records[schemas.Neighbors][1], l.records[schemas.Neighbors][2] = nil, nil }, "chunk 0 of 2 is missing"},
		"another k1":             {func(l *log) { changed(l, 2, func(c *schemas.NeighborChunk) { c.K1, c.SE = 1, c.SE[:5] }) }, "chunk 1 of 2 is missing"},
		"a cluster is another":   {func(l *log) { changed(l, 1, func(c *schemas.NeighborChunk) { c.Cluster[7] ^= 1 }) }, "its chunks have the digest"},
		"first embedding is lost": {func(l *log) {
			l.records[schemas.Embeddings][l.records[schemas.Groups][1].(*schemas.Group).FirstSeq] = nil
		}, "pair 0 of 1029 has no embedding"},
		"last embeddings are lost": {func(l *log) {
			l.records[schemas.Embeddings][embeddingOf(l, 0)], l.records[schemas.Embeddings][embeddingOf(l, 1)], l.records[schemas.Embeddings][embeddingOf(l, 2)] = nil, nil, nil
		}, "of 1029 has no embedding"},
		"the manifest is not there": {func(l *log) { l.records[schemas.Groups][1] = nil }, ""},
	} {
		for strategy, o := range map[string]Options{"grit": testOptions(StrategyGRIT), "random": testOptions(StrategyRandom)} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				var want []schemas.Record
				for _, b := range batches(drive(t, newTestLane(t, o), threeGroups())) {
					if b.Group.Seq != 1 {
						want = append(want, b)
					}
				}
				l := threeGroups()
				test.damage(l)
				lane := newTestLane(t, o)
				got, aside, _ := driveOn(t, lane, l)
				if !slices.EqualFunc(wire(t, got), wire(t, want), bytes.Equal) {
					t.Errorf("%d batches, want the %d of the other groups", len(got), len(want))
				}
				switch {
				case test.why == "" && len(aside) > 0:
					t.Errorf("set aside: %v", aside[0])
				case test.why == "":
				case len(aside) != 1 || aside[0].Group.Seq != 1 || !strings.Contains(aside[0].Error(), test.why):
					t.Errorf("set aside: %v, want group 1 because %s", aside, test.why)
				}
				if !lane.BetweenGroups() {
					t.Errorf("the lane still waits for %s", lane.WaitsFor())
				}
			})
		}
	}
}

// TestTheLastGroupLosesItsEmbeddings has no group behind the one that lacks embeddings. The seal or the refused pair
// behind it tells as much.
func TestTheLastGroupLosesItsEmbeddings(t *testing.T) {
	for name, behind := range map[string]schemas.Record{"a seal": &schemas.Seal{Final: true}, "a refused pair": &schemas.Refusal{}} {
		for lost, from := range map[string]int{"all": 0, "the last": 32} {
			for _, order := range []EpochOrder{OrderGroup, OrderLane} {
				t.Run(fmt.Sprint(lost, " before ", name, ", order ", order), func(t *testing.T) {
					o := testOptions(StrategyGRIT)
					o.EpochOrder, o.EpochGroups = order, 3
					l := newLog()
					l.addGroup(0, 41, 1)
					for i := l.addGroup(1, 33, 1).FirstSeq + int64(from); i < int64(len(l.records[schemas.Embeddings])); i++ {
						l.records[schemas.Embeddings][i] = nil
					}
					l.add(schemas.Embeddings, behind)
					l.add(schemas.Groups, &schemas.Seal{Final: true})
					lane := newTestLane(t, o)
					out, aside, _ := driveOn(t, lane, l)
					if len(aside) != 1 || aside[0].Group.Seq != 1 || !strings.Contains(aside[0].Why, "has no embedding before seq") {
						t.Errorf("set aside: %v, want group 1", aside)
					}
					if seal, ok := out[len(out)-1].(*schemas.Seal); !ok || !seal.Final || len(batches(out)) != o.Epochs*6 {
						t.Errorf("%d batches and %v at the end, want %d and the seal", len(batches(out)), out[len(out)-1], o.Epochs*6)
					}
					if !lane.BetweenGroups() {
						t.Errorf("the lane still waits for %s", lane.WaitsFor())
					}
				})
			}
		}
	}
}

// TestALaneThatHoldsARecordIsNotBetweenGroups: a lane that begins anew there would not see the record again.
func TestALaneThatHoldsARecordIsNotBetweenGroups(t *testing.T) {
	l := threeGroups()
	l.records[schemas.Neighbors][2] = nil
	third := l.records[schemas.Groups][2]
	l.records[schemas.Groups] = l.records[schemas.Groups][:2]
	lane := newTestLane(t, testOptions(StrategyRandom))
	if _, aside, _ := driveOn(t, lane, l); len(aside) != 1 || lane.Needs() != schemas.Groups || lane.BetweenGroups() {
		t.Errorf("%d groups set aside, the lane waits for %s, between groups %t: want one, a group, and that it holds a chunk",
			len(aside), lane.WaitsFor(), lane.BetweenGroups())
	}
	l.add(schemas.Groups, third)
	if out, _, _ := driveOn(t, lane, l); len(out) == 0 || !lane.BetweenGroups() {
		t.Errorf("%d batches of the third group, between groups %t", len(out), lane.BetweenGroups())
	}
}

// TestSettingsChangeAtTheNextGroup resumes within the first group with other options than it was begun with.
func TestSettingsChangeAtTheNextGroup(t *testing.T) {
	before := testOptions(StrategyGRIT)
	after := testOptions(StrategyGRIT)
	after.Epochs, after.CurriculumEpochs, after.BatchSize, after.Seed, after.Workers = 2, 4, 16, 9, 2
	var want []schemas.Record
	for _, b := range batches(drive(t, newTestLane(t, before), threeGroups())) {
		if b.Group.Seq == 0 {
			want = append(want, b)
		}
	}
	for _, b := range batches(drive(t, newTestLane(t, after), threeGroups())) {
		if b.Group.Seq > 0 {
			want = append(want, b)
		}
	}
	lane := newTestLane(t, after)
	must.Do(t, lane.Finish(before))
	if got := drive(t, lane, threeGroups()); !slices.EqualFunc(wire(t, got), wire(t, want), bytes.Equal) {
		t.Errorf("%d batches, want %d: the first group's as it was begun, the others' by the new options", len(got), len(want))
	}
	before.BatchSize = 0
	if err := newTestLane(t, after).Finish(before); err == nil {
		t.Error("a group is finished with options that make none")
	}
}

func TestWaitingIsSaid(t *testing.T) {
	l := newLog()
	g := l.addGroup(4, schemas.ChunkMembers+5, 1)
	chunks, embeddings := l.records[schemas.Neighbors], l.records[schemas.Embeddings]
	lane := newTestLane(t, testOptions(StrategyGRIT))
	var blocks []*schemas.FeatureBlock
	read := func(r schemas.Record, seq int) {
		t.Helper()
		must.Do(t, lane.Add(context.Background(), input(r, int64(seq)), func(r schemas.Record) error {
			blocks = append(blocks, train(r.(*schemas.Batch)))
			return nil
		}))
	}
	says := func(want string) {
		t.Helper()
		if got := lane.WaitsFor(); got != want {
			t.Errorf("the lane waits for %q, want %q", got, want)
		}
	}
	says("a group after group -1")
	read(g, 0)
	says("chunk 0 of 2 of group 1/4")
	read(chunks[0], 0)
	says("chunk 1 of 2 of group 1/4")
	read(chunks[1], 1)
	says("the embedding of pair 0 of 1029 of group 1/4")
	for i := 0; lane.Needs() == schemas.Embeddings; i++ {
		read(embeddings[i], i)
	}
	says("features of epoch 0, batch 0 of 129, group 1/4")
	for i := range 26 {
		read(blocks[i], i)
	}
	says("features of epoch 0, batch 26 of 129, group 1/4")
}
