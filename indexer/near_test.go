package indexer_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// atAngle returns the embedding of an image whose vector lies at an angle, in degrees.
func atAngle(degrees float64, caption string) *schemas.Embedding {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	v := schemas.NewFloat16s([]float32{float32(cos), float32(sin)})
	e := &schemas.Embedding{
		ImageID: schemas.NewImageID(fmt.Append(nil, degrees)), Caption: caption, Image: schemas.ImageRef{URI: "file:///x.tar", Size: 1},
		V: v, T: schemas.NewFloat16s([]float32{1, 0}), Model: "m1",
	}
	e.ID = schemas.NewPairID(e.ImageID, caption)
	e.Similarity = e.V.Floats()[0]
	return e
}

// TestNearDuplicatesByHand has one cluster. Above the cosine of 12 degrees, the image at 10 resembles that at 0. The
// one at 20 is close to 10 alone, which is not kept, so it is kept; and so are its captions.
func TestNearDuplicatesByHand(t *testing.T) {
	pairs := []*schemas.Embedding{
		atAngle(0, "a"), atAngle(10, "b"), atAngle(0, "again"), atAngle(20, "c"), atAngle(90, "d"), atAngle(10, "more"), atAngle(95, "e"), atAngle(31, "f"),
	}
	o := options()
	o.Clusters, o.K, o.K1, o.NearCosine = 1, 2, 1, math.Cos(12*math.Pi/180)
	found := func(g *indexer.Group) (out []string) {
		for _, c := range g.Chunks {
			for i, to := range c.NearTo {
				at := slices.IndexFunc(pairs, func(e *schemas.Embedding) bool { return e.ID == schemas.PairID(c.Near[16*i:16*i+16]) })
				out = append(out, fmt.Sprintf("%s~%d %.2f", pairs[at].Caption, to, c.NearCosine[i]))
			}
		}
		return out
	}
	members := func(g *indexer.Group) (out string) {
		for _, c := range g.Chunks {
			for i := range c.Members() {
				at := slices.IndexFunc(pairs, func(e *schemas.Embedding) bool { return e.ID == c.ID(i) })
				out += pairs[at].Caption + " "
			}
		}
		return out
	}
	for _, c := range []struct {
		policy, members string
		found           []string
		near, left      int64
	}{
		{indexer.KeepImages, "a b again c d more e f ", nil, 0, 0},
		{indexer.CountImages, "a b again c d more e f ", []string{"b~0 0.98", "more~0 0.98", "e~4 1.00", "f~3 0.98"}, 4, 0},
		{indexer.DropImages, "a again c d ", []string{"b~0 0.98", "more~0 0.98", "e~3 1.00", "f~2 0.98"}, 4, 4},
	} {
		o.NearImage = c.policy
		g := build(t, o, reference.Engine{}, pairs)
		m := g.Manifest
		if got := found(g); !slices.Equal(got, c.found) || members(g) != c.members || m.Near != c.near || m.LeftOut != c.left || int(m.Count+int32(m.LeftOut)) != len(pairs) {
			t.Errorf("policy %q: found %q among %s(%d near, %d left out), want %q among %s", c.policy, got, members(g), m.Near, m.LeftOut, c.found, c.members)
		}
		must.Check(t, m.Validate())
	}
}

// The cosine has to be above the threshold: equality keeps both.
func TestNearDuplicatesAtTheThreshold(t *testing.T) {
	pairs := []*schemas.Embedding{atAngle(0, "a"), atAngle(60, "b")}
	o := options()
	o.NearImage = indexer.DropImages
	o.Clusters = 1
	cosine := float64(pairs[1].V.Floats()[0])
	for threshold, want := range map[float64]int32{cosine: 2, cosine - 1e-6: 1} {
		o.NearCosine = threshold
		if g := build(t, o, reference.Engine{}, pairs); g.Manifest.Count != want {
			t.Errorf("cosine %v, threshold %v: %d pairs, want %d", cosine, threshold, g.Manifest.Count, want)
		}
	}
}

// product is the definition of the cosine.
func product(a, b *schemas.Embedding) float32 {
	m := dotproduct.NewMatrix(2, a.V.Len())
	copy(m.Row(0), a.V.Floats())
	copy(m.Row(1), b.V.Floats())
	out := make([]float32, 1)
	dotproduct.Block(out, m, 0, 1, m, 1, 1)
	return out[0]
}

// TestNearDuplicatesAreSemDeDup compares with the definition, pair by pair, on lanes where images have several
// captions.
func TestNearDuplicatesAreSemDeDup(t *testing.T) {
	for seed := range uint64(4) {
		pairs := lane(100+seed, 700, 1)
		r := rng.New(seed, "near")
		for i := range pairs { // some repeat an image, some resemble one
			if j := r.IntN(i + 1); r.IntN(3) == 0 {
				pairs[i].ImageID, pairs[i].V = pairs[j].ImageID, pairs[j].V
				pairs[i].ID = schemas.NewPairID(pairs[i].ImageID, pairs[i].Caption)
			}
		}
		o := options()
		o.GroupSize, o.NearCosine = len(pairs), 0.8
		o.NearImage = indexer.CountImages
		counted := build(t, o, cpu.Engine{}, pairs)
		cluster := columnOf(counted, func(c *schemas.NeighborChunk) []int32 { return c.Cluster })
		first := map[schemas.ImageID]int{}
		for i, e := range pairs {
			if _, ok := first[e.ImageID]; !ok {
				first[e.ImageID] = i
			}
		}
		var want []int32 // of every pair: the position that it resembles, or -1
		var kept []*schemas.Embedding
		near := 0
		for i, e := range pairs {
			to := int32(-1)
			if at := first[e.ImageID]; at < i {
				to = want[at]
			} else {
				for j := range i {
					if want[j] < 0 && first[pairs[j].ImageID] == j && cluster[j] == cluster[i] && product(pairs[j], e) > float32(o.NearCosine) {
						to = int32(j)
						break
					}
				}
			}
			if want = append(want, to); to < 0 {
				kept = append(kept, e)
			} else {
				near++
			}
		}
		if near < 50 || near > 600 {
			t.Fatalf("seed %d: %d near-duplicates, want more of both kinds", seed, near)
		}
		got := slices.Repeat([]int32{-1}, len(pairs))
		for id, to := range nearDuplicates(counted) {
			got[slices.IndexFunc(pairs, func(e *schemas.Embedding) bool { return e.ID == id })] = to
		}
		if !slices.Equal(got, want) || counted.Manifest.Near != int64(near) {
			t.Errorf("seed %d: found\n%v\nwant\n%v", seed, got, want)
		}
		o.NearImage = indexer.DropImages
		dropped := build(t, o, cpu.Engine{}, pairs)
		o.NearImage, o.NearCosine = indexer.KeepImages, 0
		only := build(t, o, cpu.Engine{}, kept)
		checkOnly(t, dropped, only)
		if same := len(kept) != int(dropped.Manifest.Count) || dropped.Manifest.LeftOut != int64(near); same {
			t.Errorf("seed %d: %d members and %d left out, want %d and %d", seed, dropped.Manifest.Count, dropped.Manifest.LeftOut, len(kept), near)
		}
	}
}

// checkOnly wants the group without near-duplicates to be the group of the others, apart from clusters and places.
func checkOnly(t *testing.T, dropped, only *indexer.Group) {
	t.Helper()
	for i, c := range dropped.Chunks {
		a, b := *c, *only.Chunks[i]
		a.Near, a.NearTo, a.NearCosine, a.Cluster, b.Cluster = nil, nil, nil, nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("chunk %d is not that of the pairs that are left", i)
		}
		if most := slices.Max(c.Cluster); most >= dropped.Manifest.Clusters {
			t.Errorf("cluster %d of %d", most, dropped.Manifest.Clusters)
		}
	}
	a, b := *dropped.Manifest, *only.Manifest
	a.Near, a.LeftOut, a.Digest, a.EndSeq, a.Clusters = 0, 0, b.Digest, b.EndSeq, b.Clusters
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the manifest is %+v, want %+v", a, b)
	}
}

func columnOf(g *indexer.Group, column func(*schemas.NeighborChunk) []int32) (out []int32) {
	for _, c := range g.Chunks {
		out = append(out, column(c)...)
	}
	return out
}

// nearDuplicates returns what every near-duplicate resembles.
func nearDuplicates(g *indexer.Group) map[schemas.PairID]int32 {
	out := map[schemas.PairID]int32{}
	for _, c := range g.Chunks {
		for i, to := range c.NearTo {
			out[schemas.PairID(c.Near[16*i:16*i+16])] = to
		}
	}
	return out
}

// A group of the same picture over and over keeps as many pairs as have room for the names of the others.
func TestNearDuplicatesHaveRoom(t *testing.T) {
	var pairs []*schemas.Embedding
	for i := range 3*schemas.MaxNear + 10 {
		pairs = append(pairs, atAngle(float64(i)/100, "x"))
	}
	o := options()
	o.NearImage, o.NearCosine, o.Clusters, o.GroupSize = indexer.DropImages, 0.9, 3, len(pairs)
	g := build(t, o, reference.Engine{}, pairs)
	if want := (len(pairs) + schemas.MaxNear) / (schemas.MaxNear + 1); int(g.Manifest.Count) < want || g.Manifest.LeftOut > schemas.MaxNear*int64(g.Manifest.Count) {
		t.Errorf("%d pairs are left of %d, and %d are left out", g.Manifest.Count, len(pairs), g.Manifest.LeftOut)
	}
	for _, c := range g.Chunks {
		must.Check(t, c.Validate())
	}
}

// The same group comes out with any number of threads, and when the lane is taken up in its middle.
func TestNearDuplicatesForAnyOwner(t *testing.T) {
	pairs := lane(9, 600, 2)
	o := options()
	o.NearImage, o.NearCosine, o.GroupSize = indexer.DropImages, 0.8, 300
	want := encoded(t, build(t, o, cpu.Engine{}, pairs[:299]))
	for threads := range 4 {
		o.Threads = threads
		if got := encoded(t, build(t, o, cpu.Engine{}, pairs[:299])); !bytes.Equal(got, want) {
			t.Errorf("%d threads make another group", threads)
		}
	}
}

// Live search has what is left when the group closes, and nothing else.
func TestNearDuplicatesLeaveLiveSearch(t *testing.T) {
	o := options()
	o.Clusters, o.NearImage, o.NearCosine, o.GroupSize = 1, indexer.DropImages, 0.9, 3
	live := newLive(t, indexer.LiveOptions{KeepGroups: 1, TailRows: 8192, Recall: 0.9}, cpu.Engine{})
	b := newLane(t, live, 0, o)
	pairs := []*schemas.Embedding{atAngle(0, "a"), atAngle(5, "b"), atAngle(90, "c")}
	for seq, e := range pairs {
		must.Get(b.Add(e, int64(seq)))(t)
	}
	query := indexer.Query{K: 3, Modality: indexer.Image, Exact: true}
	for closed, want := range [][]schemas.PairID{{pairs[1].ID, pairs[0].ID, pairs[2].ID}, {pairs[0].ID, pairs[2].ID}} {
		answer := must.Get(live.Search([]float32{float32(math.Cos(0.09)), float32(math.Sin(0.09))}, query))(t)
		var got []schemas.PairID
		for _, n := range answer.Neighbors {
			got = append(got, n.Pair)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d groups closed: found %v, want %v", closed, got, want)
		}
		if closed == 0 {
			if closeGroup(t, b, indexer.ByCount).Manifest.LeftOut != 1 {
				t.Error("nothing was left out")
			}
		}
	}
	if _, _, err := live.Neighbors(pairs[1].ID, query); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("the neighbours of what was left out: %v", err)
	}
}
