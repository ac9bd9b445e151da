//go:build cgo

package main

import (
	"math"
	"strings"

	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// modelFrom is what Con-D was from certain records on.
type modelFrom struct {
	path string
	from map[laneOf]int64
}

// followNobody does what an encoder asks for whose weights of the trainer's are lost: it goes on with a file of
// weights. It reports whether it has done so.
func (w *world) followNobody(s *space, m *member, state string) bool {
	if !strings.Contains(state, "with the weights of the trainer that lane") {
		return false
	}
	s.tries[m.stage+state]++
	if s.tries[m.stage+state] < 100 { // the trainer may publish them again
		return false
	}
	s.tries[m.stage+state] = 0
	w.set("ENCODER_CHECKPOINT", "", []string{"encoder", "trainer"})
	return true
}

// weights wants each embedding to have the weights that its lane has chosen, and a group to have those of one model.
func (b *books) weights() {
	log := b.w.connect(b.s)
	defer log.Close()
	notes, err := weights.Read(b.w.t.Context(), log)
	b.w.check(err)
	models := make(map[schemas.PairID]map[string]bool)
	for _, e := range b.sequence(schemas.Embeddings) {
		r, ok := e.rec.(*schemas.Embedding)
		if !ok {
			continue
		}
		if models[r.ID] == nil {
			models[r.ID] = make(map[string]bool)
		}
		models[r.ID][r.Model] = true
		model := weightsOf(r.Model)
		if model == b.w.site.prints[b.w.site.weights] || model == b.w.site.prints[b.w.site.others] {
			continue
		}
		chosen := ""
		for _, c := range notes.Choices() {
			if c.Lane == b.lane && c.Seq <= e.seq {
				chosen = c.Fingerprint
			}
		}
		if model != chosen {
			b.problem("the embedding of seq %d has the weights %s, its lane has chosen %q", e.seq, model, chosen)
		}
	}
	common := make(map[int64]map[string]int)
	members := make(map[int64]int)
	for _, e := range b.sequence(schemas.Neighbors) {
		c, ok := e.rec.(*schemas.NeighborChunk)
		if !ok {
			continue
		}
		if common[c.Group.Seq] == nil {
			common[c.Group.Seq] = make(map[string]int)
		}
		for i := range c.Members() {
			members[c.Group.Seq]++
			for model := range models[c.ID(i)] {
				common[c.Group.Seq][model]++
			}
		}
	}
	for group, n := range members {
		most := 0
		for _, count := range common[group] {
			most = max(most, count)
		}
		if most < n {
			b.problem("group %d has %d pairs, and %d at most of one model", group, n, most)
		}
	}
}

// question is what Con-D is asked.
type question struct {
	model string
	group int64
	image schemas.ImageID
	text  string
}

// scores wants every scored batch to have the Con-D that was set, and with plain images one score of an image and a
// text. Those that differ by roundings are the same.
func (b *books) scores() {
	at := laneOf{schemas.Scored, b.lane}
	said := make(map[question]float32)
	for _, e := range b.sequence(schemas.Scored) {
		r, ok := e.rec.(*schemas.ScoredBatch)
		if !ok {
			continue
		}
		model := ""
		for _, m := range b.s.models {
			if e.offset >= m.from[at] {
				model = b.w.site.prints[m.path]
			}
		}
		if r.Model != model && len(b.s.old[at]) == 0 {
			b.problem("scored: the record at offset %d has the Con-D %s, want %s", e.offset, r.Model, model)
		}
		if r.Drawn != "" { // its images are augmented, each time anew
			continue
		}
		for k := range r.I2T {
			anchor := k / int(r.M)
			for _, way := range []struct {
				image, text int
				prob        float32
			}{{anchor, int(r.I2T[k]), r.ProbI2T[k]}, {int(r.T2I[k]), anchor, r.ProbT2I[k]}} {
				if way.prob == 0 { // no candidate, ruled out, or masked
					continue
				}
				q := question{r.Model, r.Group.Seq, r.Samples[way.image].ImageID, r.Samples[way.text].Text}
				before, known := said[q]
				if known && math.Abs(float64(before-way.prob)) > 1e-3 {
					b.problem("scored: the record at offset %d gives %g for what had %g", e.offset, way.prob, before)
				}
				said[q] = way.prob
			}
		}
	}
}
