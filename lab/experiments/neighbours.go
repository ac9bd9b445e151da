package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
)

// neighbourSettings are those of X8.
type neighbourSettings struct {
	First      FirstModel   `json:"first_model"`
	Kinds      scenes.Kinds `json:"kinds"`
	Scenes     int          `json:"scenes"`
	Wrong      float64      `json:"wrong"`
	Irrelevant float64      `json:"irrelevant"`
	Anchors    int          `json:"anchors"` // whose fitting images are all looked up
	Drawn      int          `json:"drawn"`   // partners of every image, for pairs at random and of clusters
	MinCount   int          `json:"noun_min_count"`
	Steps      []sweep      `json:"steps"`
}

// sweep is one way to index, and what is read from it.
type sweep struct {
	K        int     `json:"k"`
	P        float64 `json:"p"`
	K1       int     `json:"k1"`
	K2       int     `json:"k2"`
	Clusters int     `json:"clusters"`
	// Reads names the sweeps that this is a step of: k, p, k1, k2, K.
	Reads []string `json:"reads"`
}

// Captions in the worlds of X7 and X8, as noisy as those of a crawl.
const (
	noisyWrong      = 0.2 // false of the picture
	noisyIrrelevant = 0.3 // about nothing in it
)

func neighbourSizes(short bool, scale int) neighbourSettings {
	s := neighbourSettings{
		First: firstModel(), Kinds: models.Scenes(0).Kinds, Scenes: 9600, Wrong: noisyWrong, Irrelevant: noisyIrrelevant, Anchors: 500, Drawn: 20, MinCount: 10,
		Steps: []sweep{
			{10, 0.3, 5, 500, 200, []string{"k", "p", "k1", "k2", "K"}},
			{5, 0.3, 3, 500, 64, []string{"k", "k1", "K"}},
			{20, 0.3, 10, 500, 600, []string{"k", "k1", "K"}},
			{50, 0.3, 20, 500, 1600, []string{"k", "k1", "K"}},
			{10, 0.1, 5, 20, 1, []string{"p", "k2"}},
			{10, 0.2, 5, 100, 1, []string{"p", "k2"}},
			{10, 0.5, 5, 2000, 1, []string{"p", "k2"}},
			{10, 0.7, 5, 500, 1, []string{"p"}},
		},
	}
	if short {
		s.First, s.Scenes, s.Anchors, s.Steps = briefModel(), 300, 50, []sweep{s.Steps[0], s.Steps[4]}
		s.Steps[0].Clusters = 20
	}
	s.Scenes *= scale
	return s
}

func (s neighbourSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	first, err := j.Shelf.model(ctx, j.Worker, s.First, j.Log)
	if err != nil {
		return nil, err
	}
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.Kinds = j.Seed, s.Scenes, 1, s.First.Side, 1000, s.Kinds
	o.WrongShare, o.IrrelevantShare = s.Wrong, s.Irrelevant
	d, g, err := embedded(ctx, j, o, first)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	tagger, err := tagger()
	if err != nil {
		return nil, err
	}
	m := newMembers(d, g.embeddings)
	out = append(out, m.captions(tagger).measures("captions", 0)...)
	out = append(out, m.any(s, j.Seed)...)
	fitting := m.fitting(s.Anchors)
	for _, step := range s.Steps {
		o := indexer.DefaultOptions()
		o.Seed, o.K, o.P, o.K1, o.K2, o.Clusters, o.MinCount = j.Seed, step.K, step.P, step.K1, step.K2, step.Clusters, s.MinCount
		g, err := index(ctx, g.embeddings, o)
		if err != nil {
			return nil, err
		}
		read, err := m.read(g, step, s, fitting, j.Seed)
		if err != nil {
			return nil, err
		}
		j.Log(fmt.Sprintf("indexed with k = %d, p = %g, k1 = %d, k2 = %d, K = %d", step.K, step.P, step.K1, step.K2, step.Clusters))
		out = append(out, read...)
	}
	return out, nil
}

// members holds what the members of a group show and say.
type members struct {
	shown []scenes.Scene
	said  []scenes.Statement
	texts []string
}

func newMembers(d *data, embeddings []*schemas.Embedding) *members {
	m := &members{}
	for _, e := range embeddings {
		m.shown = append(m.shown, d.shows[e.ImageID])
		m.said = append(m.said, d.says[e.Caption])
		m.texts = append(m.texts, e.Caption)
	}
	return m
}

// retrieval counts what was found and what was there to be found.
type retrieval struct {
	found, right int // things found, and those that are right
	all, covered int // things there are, and those found
	anchors      int
}

func (r retrieval) measures(arm string, x float64) []evidence.Measure {
	return []evidence.Measure{
		{Arm: arm, X: x, Name: "precision", Value: share(r.right, r.found)},
		{Arm: arm, X: x, Name: "recall", Value: share(r.covered, r.all)},
		{Arm: arm, X: x, Name: "size", Value: share(r.found, r.anchors)},
	}
}

// nouns counts the nouns of a text against the objects of a scene. The tagger takes names of colours for nouns: one is
// right when an object has it. Words of the sentence around, such as "picture", are not counted.
func (r *retrieval) nouns(s scenes.Scene, words []string) {
	there := map[scenes.Shape]bool{} // whether found
	coloured := map[string]bool{}
	for _, o := range s.Objects {
		there[o.Shape] = false
		coloured[string(o.Colour)] = true
	}
	r.anchors++
	for _, w := range words {
		if scenes.Framing(w) {
			continue
		}
		r.found++
		shape, known := scenes.ShapeOf(w)
		if _, shown := there[shape]; known && shown {
			there[shape] = true
			r.right++
		} else if coloured[w] {
			r.right++
		}
	}
	r.all += len(there)
	for _, found := range there {
		if found {
			r.covered++
		}
	}
}

// captions counts the captions' own nouns.
func (m *members) captions(tagger *nouns.Tagger) (r retrieval) {
	for i, text := range m.texts {
		r.nouns(m.shown[i], tagger.Nouns(text))
	}
	return r
}

// shares reports whether two scenes have an object of the same noun and colour.
func shares(a, b scenes.Scene) bool {
	return slices.ContainsFunc(a.Objects, func(o scenes.Object) bool {
		return slices.ContainsFunc(b.Objects, func(p scenes.Object) bool { return o.Shape == p.Shape && o.Colour == p.Colour })
	})
}

// any measures pairs at random.
func (m *members) any(s neighbourSettings, seed uint64) []evidence.Measure {
	draws := rng.New(seed, "experiments.pairs")
	pairs, fits, alike := 0, 0, 0
	for i := range m.shown {
		for range s.Drawn {
			other := draws.IntN(len(m.shown))
			if other == i {
				continue
			}
			pairs++
			if m.said[i].Holds(m.shown[other]) {
				fits++
			}
			if shares(m.shown[i], m.shown[other]) {
				alike++
			}
		}
	}
	return []evidence.Measure{
		{Arm: "any", Name: "fits", Value: share(fits, pairs)},
		{Arm: "any", Name: "shares", Value: share(alike, pairs)},
		{Arm: "any", Name: "false_negatives", Value: share(fits, pairs)},
	}
}

// fitting returns, for each of the first members, the others whose image fits its caption.
func (m *members) fitting(anchors int) [][]int32 {
	out := make([][]int32, min(anchors, len(m.shown)))
	for i := range out {
		for other, s := range m.shown {
			if other != i && m.said[i].Holds(s) {
				out[i] = append(out[i], int32(other))
			}
		}
	}
	return out
}

// read measures what the indexer found in a step.
func (m *members) read(g *group, step sweep, s neighbourSettings, fitting [][]int32, seed uint64) ([]evidence.Measure, error) {
	if int(g.Manifest.Count) != len(m.shown) {
		return nil, fmt.Errorf("the group has %d members, want %d: two generated pairs are the same", g.Manifest.Count, len(m.shown))
	}
	objects, equivalent := m.objects(g), m.equivalent(g, fitting)
	clusters := m.clusters(g, s.Drawn, seed)
	var out []evidence.Measure
	for _, r := range step.Reads {
		switch r {
		case "k":
			out = append(out, objects.measures("obj k", float64(step.K))...)
		case "p":
			out = append(out, objects.measures("obj p", step.P)...)
		case "k1":
			out = append(out, equivalent.measures("SE k1", step.K1)...)
		case "k2":
			out = append(out, equivalent.measures("SE k2", step.K2)...)
		case "K":
			out = append(out, evidence.Measure{Arm: "clusters", X: float64(step.Clusters), Name: "false_negatives", Value: clusters})
		default:
			return nil, fmt.Errorf("there is no sweep %q", r)
		}
	}
	return out, nil
}

// objects counts obj(v) of all members.
func (m *members) objects(g *group) (r retrieval) {
	for _, c := range g.Chunks {
		for i := range c.Members() {
			var words []string
			for _, o := range c.Objects(i) {
				words = append(words, g.Manifest.Nouns[o])
			}
			r.nouns(m.shown[int(c.Start)+i], words)
		}
	}
	return r
}

// equivalents counts images of SE.
type equivalents struct {
	anchors, images, fits, alike int
	all, found                   int // fitting images of some anchors, and those of them in SE
}

func (e equivalents) measures(arm string, x int) []evidence.Measure {
	return []evidence.Measure{
		{Arm: arm, X: float64(x), Name: "fits", Value: share(e.fits, e.images)},
		{Arm: arm, X: float64(x), Name: "shares", Value: share(e.alike, e.images)},
		{Arm: arm, X: float64(x), Name: "recall", Value: share(e.found, e.all)},
		{Arm: arm, X: float64(x), Name: "size", Value: share(e.images, e.anchors)},
	}
}

func (m *members) equivalent(g *group, fitting [][]int32) (e equivalents) {
	for _, c := range g.Chunks {
		for i := range c.Members() {
			at := int(c.Start) + i
			e.anchors++
			if at < len(fitting) {
				e.all += len(fitting[at])
			}
			for _, other := range c.SE[i*int(c.K1) : (i+1)*int(c.K1)] {
				if other < 0 {
					break
				}
				e.images++
				if m.said[at].Holds(m.shown[other]) {
					e.fits++
				}
				if shares(m.shown[at], m.shown[other]) {
					e.alike++
				}
				if at < len(fitting) && slices.Contains(fitting[at], other) {
					e.found++
				}
			}
		}
	}
	return e
}

// clusters returns the share of false negatives among pairs of one cluster.
func (m *members) clusters(g *group, drawn int, seed uint64) float64 {
	in := map[int32][]int{}
	of := make([]int32, len(m.shown))
	for _, c := range g.Chunks {
		for i, cluster := range c.Cluster {
			at := int(c.Start) + i
			of[at] = cluster
			in[cluster] = append(in[cluster], at)
		}
	}
	draws := rng.New(seed, "experiments.clusters")
	pairs, fits := 0, 0
	for i, cluster := range of {
		for range drawn {
			other := in[cluster][draws.IntN(len(in[cluster]))]
			if other == i {
				continue
			}
			pairs++
			if m.said[i].Holds(m.shown[other]) {
				fits++
			}
		}
	}
	return share(fits, pairs)
}
