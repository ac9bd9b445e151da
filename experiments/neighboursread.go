package experiments

import (
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/internal/rng"
)

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
