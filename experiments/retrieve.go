package experiments

import (
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/scenes"
)

// topIsTrue returns the shares, in percent, of held-out images whose most similar text is true of them, and of texts that
// are true of their most similar image. A true match counts, whoever wrote the text.
func (s *setup) topIsTrue(sim eval.Matrix) (texts, images float64) {
	shown, said := make([]scenes.Scene, sim.Rows), make([]scenes.Statement, sim.Cols)
	for i := range s.data.held.Pairs() {
		text, image, id := s.data.held.Pair(i)
		shown[image], said[i] = s.data.shows[id], s.data.says[text]
	}
	holds := func(image, text int) bool { return said[text].Holds(shown[image]) }
	return 100 * topShare(sim, holds), 100 * topShare(sim.Transposed(), func(text, image int) bool { return holds(image, text) })
}

// topShare returns the share of rows whose largest column holds; of several the first counts.
func topShare(m eval.Matrix, holds func(row, col int) bool) float64 {
	right := 0
	for row := range m.Rows {
		best := 0
		for col, v := range m.Row(row) {
			if v > m.Row(row)[best] {
				best = col
			}
		}
		if holds(row, best) {
			right++
		}
	}
	return share(right, m.Rows)
}
