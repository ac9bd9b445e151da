package indexer_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// closedGroup closes a group of a lane, and keeps its segment until the test ends.
func closedGroup(t *testing.T, o indexer.Options, engine knn.Engine, id schemas.GroupID, pairs []*schemas.Embedding, asked ...*segment.Segment) *indexer.Group {
	t.Helper()
	b := must.Get(indexer.NewBuilder(id, o, engine, nouns{}, nil))(t)
	for i, e := range pairs {
		must.Get(b.Add(e, int64(i)))(t)
	}
	g := must.Get(b.Close(t.Context(), indexer.BySeal, asked...))(t)
	t.Cleanup(func() { must.Check(t, g.Segment.Close()) })
	for _, c := range g.Chunks {
		must.Check(t, c.Validate())
	}
	must.Check(t, g.Manifest.Validate())
	return g
}

func acrossOptions() indexer.Options {
	o := options()
	o.Scope, o.Asked, o.Segments = schemas.ScopeLane, 8, true
	return o
}

// described says what each member has, by captions.
func described(g *indexer.Group, known ...*schemas.Embedding) []string {
	byImage := make(map[schemas.ImageID]string)
	byPair := make(map[schemas.PairID]string)
	for _, e := range known {
		byImage[e.ImageID], byPair[e.ID] = e.Caption, e.Caption
	}
	var out []string
	for _, c := range g.Chunks {
		outside := c.Outside()
		for i := range c.Members() {
			line := byPair[c.ID(i)] + ":"
			for _, at := range c.SE[i*int(c.K1) : (i+1)*int(c.K1)] {
				if at >= 0 {
					line += " " + byPair[c.ID(int(at))]
				}
			}
			if outside != nil {
				for _, p := range outside[i] {
					line += " far " + byImage[p.ImageID]
				}
			}
			for _, noun := range c.Objects(i) {
				line += " +" + g.Manifest.Nouns[noun]
			}
			out = append(out, line)
		}
		for i := range c.OutNearCosine {
			out = append(out, fmt.Sprintf("%s~%s %.2f", byPair[schemas.PairID(c.OutNear[16*i:16*i+16])], byImage[schemas.ImageID(c.OutNearTo[16*i:16*i+16])], c.OutNearCosine[i]))
		}
	}
	return out
}

// at returns the embedding of an image and a text that lie at angles, in degrees.
func at(image, text float64, caption string) *schemas.Embedding {
	e := atAngle(image, caption)
	sin, cos := math.Sincos(text * math.Pi / 180)
	e.T = schemas.NewFloat16s([]float32{float32(cos), float32(sin)})
	e.Similarity = float32(knn.Score(e.V.Floats(), e.T.Floats()))
	return e
}

// TestOutsideByHand has a closed group with images at 2, 40 and 88 degrees. Of the open group, the image at 0 finds
// that at 2 nearer than the member at 10, and the image at 90 finds that at 88. The image at 40 is in both groups.
func TestOutsideByHand(t *testing.T) {
	far := []*schemas.Embedding{at(2, 2, "dogs"), at(40, 40, "both"), at(88, 88, "cats")}
	pairs := []*schemas.Embedding{at(0, 0, "near dogs"), at(10, 10, "also dogs"), at(40, 41, "both again"), at(90, 90, "near cats")}
	o := acrossOptions()
	o.Clusters, o.K, o.K1, o.K2, o.MinCount, o.P = 1, 2, 1, 3, 0, 0.5
	closed := closedGroup(t, o, reference.Engine{}, schemas.GroupID{Lane: 3, Seq: 0}, far)
	everything := append(slices.Clone(far), pairs...)
	for _, c := range []struct {
		name   string
		change func(*indexer.Options)
		asked  []*segment.Segment
		want   []string
		near   int64
	}{
		{"nobody is asked", func(*indexer.Options) {}, nil, []string{
			"near dogs: also dogs +dogs", "also dogs: near dogs +dogs", "both again: also dogs", "near cats: both again",
		}, 0},
		{"the closed group is asked", func(*indexer.Options) {}, []*segment.Segment{closed.Segment}, []string{
			"near dogs: far dogs +dogs", "also dogs: far dogs +dogs", "both again: also dogs +both", "near cats: far cats +cats",
		}, 0},
		{"near-duplicates are counted", func(o *indexer.Options) { o.NearImage, o.NearCosine = indexer.CountImages, math.Cos(4*math.Pi/180) }, []*segment.Segment{closed.Segment}, []string{
			"near dogs: far dogs +dogs", "also dogs: far dogs +dogs", "both again: also dogs +both", "near cats: far cats +cats", "both again~both again 1.00", "near cats~cats 1.00",
		}, 2},
	} {
		o := o
		c.change(&o)
		g := closedGroup(t, o, reference.Engine{}, schemas.GroupID{Lane: 3, Seq: 1}, pairs, c.asked...)
		if got := described(g, everything...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if m := g.Manifest; m.Near != c.near || m.LeftOut != 0 || m.Scope != schemas.ScopeLane || len(m.Asked) != len(c.asked) || len(m.Asked) > 0 && m.Asked[0] != (schemas.GroupID{Lane: 3}) {
			t.Errorf("%s: %d near-duplicates, %d left out, asked %v", c.name, m.Near, m.LeftOut, m.Asked)
		}
	}
}

// TestNearDuplicatesOfOtherGroupsAreDropped leaves two of five members out. SE and objects are those of the others.
func TestNearDuplicatesOfOtherGroupsAreDropped(t *testing.T) {
	far := []*schemas.Embedding{at(2, 2, "dogs"), at(88, 88, "cats")}
	pairs := []*schemas.Embedding{at(45, 45, "first"), at(3, 3, "near dogs"), at(50, 50, "second"), at(87, 87, "near cats"), at(40, 40, "third")}
	o := acrossOptions()
	o.Clusters, o.K, o.K1, o.K2, o.MinCount, o.NearImage, o.NearCosine = 2, 2, 1, 4, 0, indexer.DropImages, math.Cos(2*math.Pi/180)
	closed := closedGroup(t, o, cpu.Engine{}, schemas.GroupID{Lane: 0, Seq: 4}, far)
	g := closedGroup(t, o, cpu.Engine{}, schemas.GroupID{Lane: 3, Seq: 1}, pairs, closed.Segment)
	want := []string{"first: second +first +second", "second: first +first +second", "third: first +first +third", "near dogs~dogs 1.00", "near cats~cats 1.00"}
	got := described(g, append(slices.Clone(far), pairs...)...)
	if !slices.Equal(got, want) || g.Manifest.Near != 2 || g.Manifest.LeftOut != 2 || g.Manifest.Count != 3 {
		t.Errorf("%+v\n%s\nwant\n%s", g.Manifest, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAskingIsDeterministic makes a group with both engines, any number of threads, and segments as they come from
// files.
func TestAskingIsDeterministic(t *testing.T) {
	o := acrossOptions()
	o.NearImage, o.NearCosine = indexer.DropImages, 0.97
	all := lane(6, 1500, 3)
	var asked, parsed []*segment.Segment
	for i := range 2 {
		g := closedGroup(t, o, cpu.Engine{}, schemas.GroupID{Lane: 3, Seq: int64(i)}, all[500*i:500*(i+1)], asked...)
		s := must.Get(segment.Parse(bytes.Clone(g.Segment.Bytes())))(t)
		asked, parsed = append(asked, g.Segment), append(parsed, s)
	}
	var want []byte
	for i, engine := range []knn.Engine{cpu.Engine{}, reference.Engine{}, cpu.Engine{}} {
		o.Threads = i + 1
		others := [][]*segment.Segment{asked, parsed}[i%2]
		got := encoded(t, closedGroup(t, o, engine, schemas.GroupID{Lane: 3, Seq: 2}, all[1000:], others...))
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%T with %d threads makes other records", engine, o.Threads)
		}
	}
}

// TestAskingFindsWhatOneLargeGroupFinds holds SE of a group that asks two others against SE of all three in one group,
// which is exact.
func TestAskingFindsWhatOneLargeGroupFinds(t *testing.T) {
	const n = 2000
	o := acrossOptions()
	o.GroupSize, o.Clusters, o.K2 = n, 30, 100
	all := lane(8, 3*n, 1)
	var asked []*segment.Segment
	var last *indexer.Group
	for i := range 3 {
		last = closedGroup(t, o, cpu.Engine{}, schemas.GroupID{Lane: 3, Seq: int64(i)}, all[n*i:n*(i+1)], asked...)
		asked = append(asked, last.Segment)
	}
	one := o
	one.GroupSize, one.Scope, one.Asked = 3*n, "", 0
	whole := closedGroup(t, one, cpu.Engine{}, schemas.GroupID{Lane: 4}, all)
	want := equivalents(whole, all)
	found, wanted, wrong := 0, 0, 0
	for pair, images := range equivalents(last, all[2*n:]) {
		wanted += len(want[pair])
		for _, image := range images {
			if slices.Contains(want[pair], image) {
				found++
			} else {
				wrong++
			}
		}
	}
	alone := 0
	apart := o
	apart.Scope, apart.Asked = "", 0
	for pair, images := range equivalents(closedGroup(t, apart, cpu.Engine{}, schemas.GroupID{Lane: 3, Seq: 2}, all[2*n:]), all[2*n:]) {
		for _, image := range images {
			if slices.Contains(want[pair], image) {
				alone++
			}
		}
	}
	t.Logf("of %d equivalent images %.4f are found, %.4f of what is found is wrong; a group alone finds %.4f",
		wanted, float64(found)/float64(wanted), float64(wrong)/float64(found+wrong), float64(alone)/float64(wanted))
	if float64(found) < 0.95*float64(wanted) || float64(wrong) > 0.06*float64(found+wrong) || alone > found/2 {
		t.Errorf("found %d of %d equivalent images and %d others; alone %d", found, wanted, wrong, alone)
	}
}

// equivalents lists the equivalent images of every pair.
func equivalents(g *indexer.Group, members []*schemas.Embedding) map[schemas.PairID][]schemas.ImageID {
	out := make(map[schemas.PairID][]schemas.ImageID)
	for _, c := range g.Chunks {
		outside := c.Outside()
		for i := range c.Members() {
			id := c.ID(i)
			for _, at := range c.SE[i*int(c.K1) : (i+1)*int(c.K1)] {
				if at >= 0 {
					out[id] = append(out[id], members[at].ImageID)
				}
			}
			if outside != nil {
				for _, p := range outside[i] {
					out[id] = append(out[id], p.ImageID)
				}
			}
		}
	}
	return out
}

func TestOtherModelsAreNotAsked(t *testing.T) {
	o := acrossOptions()
	o.Clusters = 1
	closed := closedGroup(t, o, cpu.Engine{}, schemas.GroupID{}, []*schemas.Embedding{at(2, 2, "dogs")})
	other := at(3, 3, "cats")
	other.Model = "m2"
	b := newBuilder(t, o, cpu.Engine{})
	must.Get(b.Add(other, 0))(t)
	if _, err := b.Close(t.Context(), indexer.BySeal, closed.Segment); err == nil || !strings.Contains(err.Error(), "by model m1, want 2 by m2") {
		t.Errorf("%v, want an error about the model", err)
	}
}
