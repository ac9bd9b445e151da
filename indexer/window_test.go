package indexer_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// addFrom adds embeddings from a seq on and closes the groups that are full; it returns the manifests and the seqs from
// which they would be added again, the open group's last.
func addFrom(t *testing.T, b *indexer.Builder, embeddings []*schemas.Embedding, from int) (groups []*indexer.Group, firsts []int64) {
	t.Helper()
	for seq := from; seq < len(embeddings); seq++ {
		if _, open := b.FirstSeq(); !open {
			firsts = append(firsts, int64(seq))
		}
		verdict := must.Get(b.Add(embeddings[seq], int64(seq)))(t)
		switch verdict {
		case indexer.Complete:
			groups = append(groups, closeGroup(t, b, indexer.ByCount))
		case indexer.NewModel:
			groups = append(groups, closeGroup(t, b, indexer.ByModel))
			seq--
		case indexer.Open:
		}
	}
	return groups, firsts
}

// TestAPairCountsOnceAcrossGroups publishes a lane twice, and then something new.
func TestAPairCountsOnceAcrossGroups(t *testing.T) {
	o := options()
	o.GroupSize = 50
	pairs := lane(11, 130, 1)
	twice := slices.Concat(pairs[:100], pairs[:100], pairs[100:120], pairs[:7], pairs[110:])
	b := newBuilder(t, o, reference.Engine{})
	groups, _ := addFrom(t, b, twice, 0)
	groups = append(groups, closeGroup(t, b, indexer.BySeal))
	want := []schemas.Group{
		{FirstSeq: 0, EndSeq: 50, Count: 50},
		{FirstSeq: 50, EndSeq: 100, Count: 50},
		{FirstSeq: 100, EndSeq: 247, Count: 30, Repeats: 107, Duplicates: 10},
	}
	if len(groups) != len(want) {
		t.Fatalf("%d groups, want %d", len(groups), len(want))
	}
	for i, g := range groups {
		m, w := g.Manifest, want[i]
		if m.FirstSeq != w.FirstSeq || m.EndSeq != w.EndSeq || m.Count != w.Count || m.Repeats != w.Repeats || m.Duplicates != w.Duplicates {
			t.Errorf("group %d has seqs %d..%d, %d pairs, %d duplicates and %d repeats; want %+v", i, m.FirstSeq, m.EndSeq, m.Count, m.Duplicates, m.Repeats, w)
		}
		encoded(t, g) // checks the records
	}
	// What no group follows is counted once.
	must.Get(b.Add(pairs[3], 300))(t)
	if first, open := b.FirstSeq(); !open || first != 300 || closeGroup(t, b, indexer.BySeal) != nil {
		t.Errorf("first seq %d, open %t: want 300, and no group", first, open)
	}
	if got, again := b.Repeats(), b.Repeats(); got != 1 || again != 0 {
		t.Errorf("%d repeats, and then %d, want 1 and 0", got, again)
	}
}

// TestTheWindowsEdges repeats a pair of the first and of the last seq of a block, up to where it counts again.
func TestTheWindowsEdges(t *testing.T) {
	o := options()
	o.GroupSize, o.Window = 1, 20 // blocks of 10
	for _, test := range []struct {
		first, again int64
		repeat       bool
	}{
		{0, 1, true},
		{0, 9, true},
		{0, 10, true},
		{0, 29, true},
		{0, 30, false},
		{0, 1000, false},
		{9, 29, true},
		{9, 30, false},
		{10, 39, true},
		{10, 40, false},
		{19, 39, true},
		{19, 40, false},
	} {
		t.Run(fmt.Sprintf("%d and %d", test.first, test.again), func(t *testing.T) {
			b := newBuilder(t, o, reference.Engine{})
			e := lane(12, 1, 1)[0]
			add(t, b, e, test.first, indexer.Complete)
			closeGroup(t, b, indexer.ByCount)
			want := indexer.Complete
			if test.repeat {
				want = indexer.Open
			}
			add(t, b, e, test.again, want)
		})
	}
}

// TestRememberingGivesTheSameGroups begins anew at every group of a lane with many repeats and two models.
func TestRememberingGivesTheSameGroups(t *testing.T) {
	o := options()
	o.GroupSize, o.Window, o.MinCount = 7, 24, 1
	pool, r := lane(13, 40, 1), rng.New(14, "window")
	var embeddings []*schemas.Embedding
	for i := range 1000 {
		e := *pool[(r.IntN(12)+i/8)%len(pool)]
		if i%150 > 100 {
			e.Model = "m2"
		}
		embeddings = append(embeddings, &e)
	}
	whole, firsts := addFrom(t, newBuilder(t, o, reference.Engine{}), embeddings, 0)
	if len(whole) < 20 {
		t.Fatalf("%d groups are too few to say something", len(whole))
	}
	repeats := int64(0)
	for i, first := range firsts {
		if i == len(whole) {
			break
		}
		b := must.Get(indexer.NewBuilder(whole[i].Manifest.Group, o, reference.Engine{}, nouns{}, nil))(t)
		for seq := range first {
			known, _ := o.WindowBlocks(first)
			if _, own := o.WindowBlocks(seq); own >= known {
				b.Remember(embeddings[seq].ID, embeddings[seq].ImageID, seq)
			}
		}
		again, _ := addFrom(t, b, embeddings, int(first))
		must.Do(t, b.Free())
		if !slices.EqualFunc(again, whole[i:], func(x, y *indexer.Group) bool { return bytes.Equal(encoded(t, x), encoded(t, y)) }) {
			t.Fatalf("from group %d on, seq %d, the groups are others", i, first)
		}
		repeats += whole[i].Manifest.Repeats
	}
	if repeats < 50 {
		t.Errorf("%d repeats are too few to say something", repeats)
	}
}

// TestSettingsChangeAtTheNextGroup finishes a group with the options that it was begun with.
func TestSettingsChangeAtTheNextGroup(t *testing.T) {
	begun, later := options(), options()
	begun.GroupSize, later.GroupSize = 40, 60
	later.K1, later.Seed, later.Clusters, later.Threads = 3, 43, 5, 2
	pairs := lane(15, 100, 1)
	b := newBuilder(t, later, reference.Engine{})
	must.Do(t, b.Finish(begun))
	got, _ := addFrom(t, b, pairs, 0)
	alone, _ := addFrom(t, newBuilder(t, begun, reference.Engine{}), pairs[:40], 0)
	if len(got) != 2 || !bytes.Equal(encoded(t, got[0]), encoded(t, alone[0])) {
		t.Fatalf("%d groups, want 2, the first as its options make it", len(got))
	}
	if m := got[1].Manifest; m.K1 != 3 || m.Count != 60 || m.Clusters != 5 {
		t.Errorf("the second group has k1 = %d, %d pairs and %d clusters, want the new options'", m.K1, m.Count, m.Clusters)
	}
	begun.Window--
	if err := newBuilder(t, later, reference.Engine{}).Finish(begun); err == nil {
		t.Error("a group is finished with a window of another size")
	}
}
