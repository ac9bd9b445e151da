package grouper

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// withOutside gives the members of the second chunk images of other groups: a third of them two, of which one shows the
// member's own image, and a third one.
func withOutside(t *testing.T, l *log, g *schemas.Group) map[int32][]schemas.Positive {
	t.Helper()
	want, digest := make(map[int32][]schemas.Positive), sha256.New()
	images := make(map[schemas.PairID]schemas.ImageID)
	for _, r := range l.records[schemas.Embeddings] {
		images[r.(*schemas.Embedding).ID] = r.(*schemas.Embedding).ImageID
	}
	for number, r := range l.records[schemas.Neighbors] {
		c := r.(*schemas.NeighborChunk)
		if number == 1 {
			out := make([][]schemas.Positive, c.Members())
			for i := range out {
				far := schemas.Positive{
					ImageID: schemas.NewImageID(fmt.Append(nil, "far ", i)),
					Image:   schemas.ImageRef{URI: fmt.Sprintf("s3://far/%d.tar", i%7), Offset: int64(i) << 34, Size: int64(i + 1)},
				}
				own := far
				own.ImageID = images[c.ID(i)]
				out[i] = [][]schemas.Positive{nil, {far}, {own, far}}[i%3]
				if i%3 > 0 {
					want[c.Start+int32(i)] = []schemas.Positive{far}
				}
			}
			c.SetOutside(out)
		}
		raw := must.Get(schemas.Marshal(c))(t)
		digest.Write(raw)
	}
	g.Digest = digest.Sum(nil)
	return want
}

// TestPositivesOfOtherGroups draws them like the members of SE, and from a group that was parked as well.
func TestPositivesOfOtherGroups(t *testing.T) {
	const n = schemas.ChunkMembers + 200
	o := testOptions(StrategyRandom)
	l := newLog()
	far := withOutside(t, l, l.addGroup(0, n, 1))
	lane := newTestLane(t, o)
	found, drawn := 0, 0
	for _, b := range batches(drive(t, lane, l)) {
		for _, s := range b.Samples {
			allowed := far[s.Position]
			if s.Positive != nil && slices.Contains(allowed, *s.Positive) {
				found++
			} else if s.Positive != nil && s.Positive.Image.URI[:5] == "s3://" {
				t.Fatalf("pair %d has the positive %+v, want one of %+v or of its group", s.Position, s.Positive, allowed)
			}
			if len(allowed) > 0 {
				drawn++
				if s.Positive == nil {
					t.Errorf("pair %d has no positive", s.Position)
				}
			}
		}
	}
	if found < drawn/4 || found == drawn || drawn < o.Epochs*100 {
		t.Errorf("%d of %d positives are of other groups: the test says nothing", found, drawn)
	}
}

// TestOutsideSurvivesParking stores a group with images of other groups.
func TestOutsideSurvivesParking(t *testing.T) {
	l := newLog()
	g := l.addGroup(0, schemas.ChunkMembers+9, 1)
	withOutside(t, l, g)
	m := newMembers(g)
	for _, r := range l.records[schemas.Neighbors] {
		raw := must.Get(schemas.Marshal(r))(t)
		must.Do(t, m.addChunk(r.(*schemas.NeighborChunk), raw))
	}
	m.reserve(false)
	for seq, r := range l.records[schemas.Embeddings] {
		if m.complete() {
			break
		}
		must.Do(t, m.addEmbedding(r.(*schemas.Embedding), int64(seq)))
	}
	var stored bytes.Buffer
	must.Do(t, (groupState{members: m}).encode(&stored))
	var again groupState
	must.Do(t, again.decode(&stored))
	some := 0
	for p := range g.Count {
		got, want := again.members.outside.of(p, m.imageIDs[p]), m.outside.of(p, m.imageIDs[p])
		if !slices.Equal(got, want) {
			t.Fatalf("pair %d has the images %v, want %v", p, got, want)
		}
		for _, i := range want {
			some++
			if *again.members.outside.at(i) != *m.outside.at(i) {
				t.Errorf("image %d is another", i)
			}
		}
	}
	if some == 0 {
		t.Error("no image of another group")
	}
}
