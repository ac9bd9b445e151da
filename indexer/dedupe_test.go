package indexer_test

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// repeating returns embeddings of few images with few captions, so that images and pairs repeat.
func repeating(n int) []*schemas.Embedding {
	base := lane(5, n, 1)
	r := rng.New(3, "repeated images")
	for _, e := range base {
		e.ImageID = schemas.NewImageID(fmt.Appendf(nil, "image %d", r.IntN(n/3)))
		e.Caption = fmt.Sprintf("caption %d", r.IntN(3))
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	}
	return base
}

// TestOnePairOfAnImage compares with an oracle that remembers everything, and takes the lane up again at every group.
func TestOnePairOfAnImage(t *testing.T) {
	embeddings := repeating(400)
	for _, policy := range []string{indexer.KeepImages, indexer.CountImages, indexer.DropImages} {
		t.Run("policy "+policy, func(t *testing.T) {
			o := options()
			o.GroupSize, o.Window, o.SameImage = 20, 10_000, policy
			pairs, images := map[schemas.PairID]bool{}, map[schemas.ImageID]bool{}
			members, same := 0, int64(0)
			for _, e := range embeddings {
				again := images[e.ImageID] && !pairs[e.ID]
				if again {
					same++
				}
				if !pairs[e.ID] && !(again && policy == indexer.DropImages) {
					members++
				}
				pairs[e.ID], images[e.ImageID] = true, true
			}
			if same == 0 {
				t.Fatal("no image repeats")
			}
			if policy == indexer.KeepImages {
				same = 0
			}
			b := newBuilder(t, o, reference.Engine{})
			groups, firsts := addFrom(t, b, embeddings, 0)
			if last := closeGroup(t, b, indexer.BySeal); last != nil {
				groups = append(groups, last)
			}
			gotMembers, gotSame := 0, int64(0)
			for _, g := range groups {
				gotMembers += int(g.Manifest.Count)
				gotSame += g.Manifest.SameImage
				must.Check(t, g.Manifest.Validate())
			}
			if gotMembers != members || b.SameImages() != same || gotSame > same || gotSame < same/2 { // some lie behind the last group
				t.Errorf("%d members and %d (%d) repeated images, want %d and %d", gotMembers, gotSame, b.SameImages(), members, same)
			}
			for i, first := range firsts[:len(groups)] {
				again := must.Get(indexer.NewBuilder(groups[i].Manifest.Group, o, reference.Engine{}, nouns{}, nil))(t)
				for seq := range first {
					again.Remember(embeddings[seq].ID, embeddings[seq].ImageID, seq)
				}
				rest, _ := addFrom(t, again, embeddings, int(first))
				if len(rest) > 0 && !bytes.Equal(encoded(t, rest[0]), encoded(t, groups[i])) {
					t.Errorf("group %d differs when the lane is taken up at seq %d", i, first)
				}
				must.Check(t, again.Free())
			}
		})
	}
}

// BenchmarkWindow looks up and remembers pairs and their images, none of which came before. With -benchtime 10000000x
// the window holds all of them.
func BenchmarkWindow(b *testing.B) {
	o := options()
	o.Window, o.SameImage = 10_000_000, indexer.DropImages
	builder := must.Get(indexer.NewBuilder(schemas.GroupID{}, o, reference.Engine{}, nouns{}, nil))(b)
	seq, before := int64(0), machine.ProcessorTime()
	for b.Loop() {
		pair := schemas.PairID{byte(seq), byte(seq >> 8), byte(seq >> 16), byte(seq >> 24), 1}
		builder.Remember(pair, schemas.ImageID(pair), seq)
		seq++
	}
	b.ReportMetric(float64(b.N)/(machine.ProcessorTime()-before).Seconds(), "pairs/cpu-s")
	var use syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	b.ReportMetric(float64(use.Maxrss)/1024, "peak-MiB")
}
