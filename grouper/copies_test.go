package grouper

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// withCopies gives every member of a group but each fifth a copy, as an indexer that re-packs images does.
func withCopies(l *log, g *schemas.Group, copies map[schemas.PairID]schemas.ImageRef) {
	digest := sha256.New()
	for _, r := range l.records[schemas.Neighbors] {
		c := r.(*schemas.NeighborChunk)
		if c.Group != g.Group {
			continue
		}
		for i := range c.Members() {
			if i%5 == 0 {
				continue
			}
			ref := schemas.ImageRef{URI: "s3://copies/group/0.tar", Offset: 512 * int64(i+1), Size: int64(i + 1), Copy: schemas.NewImageID([]byte{1, byte(i)})}
			c.SetCopy(i, ref)
			copies[c.ID(i)] = ref
		}
		raw, err := schemas.Marshal(c)
		if err != nil {
			panic(err)
		}
		digest.Write(raw)
	}
	g.Digest = digest.Sum(nil)
}

// TestBatchesReferToCopies compares the mini-batches of groups whose images are copied with those of groups whose
// images are not. Nothing differs but references, and groups that were put aside keep them.
func TestBatchesReferToCopies(t *testing.T) {
	for name, order := range map[string]EpochOrder{"group by group": OrderGroup, "epoch by epoch, out of a store": OrderLane} {
		o := testOptions(StrategyGRIT)
		if o.EpochOrder = order; order == OrderLane {
			o.EpochGroups = 2
		}
		copies := make(map[schemas.PairID]schemas.ImageRef)
		run := func(copied bool) []*schemas.Batch {
			l := newLog()
			for seq := range int64(2) {
				if g := l.addGroup(seq, 100, 2); copied {
					withCopies(l, g, copies)
				}
			}
			l.add(schemas.Groups, &schemas.Seal{Final: true})
			lane := newTestLane(t, o)
			lane.KeepIn(boxes{})
			return batches(drive(t, lane, l))
		}
		plain, copied := run(false), run(true)
		if len(plain) == 0 || len(plain) != len(copied) {
			t.Fatalf("%s: %d batches, without copies %d", name, len(copied), len(plain))
		}
		for i, b := range copied {
			for k := range b.Samples {
				s, was := &b.Samples[k], plain[i].Samples[k]
				if want, ok := copies[s.ID]; ok && s.Image != want || !ok && s.Image != was.Image {
					t.Fatalf("%s: batch %d, sample %d refers to %+v, want the copy %+v", name, i, k, s.Image, want)
				}
				s.Image = was.Image
				if s.Positive != nil {
					s.Positive.Image = was.Positive.Image
				}
			}
		}
		if a, b := wire(t, records(plain)), wire(t, records(copied)); !slices.EqualFunc(a, b, bytes.Equal) {
			t.Errorf("%s: batches differ in more than their references", name)
		}
	}
}

func records(list []*schemas.Batch) []schemas.Record {
	var out []schemas.Record
	for _, b := range list {
		out = append(out, b)
	}
	return out
}
