package grouper

import (
	"slices"
	"testing"
)

// When told so, captions of one image are negatives of each other, as in the papers: no batch names partners, and the
// hardest candidate of a pair may be another caption of its image, which Con-D is asked about.
func TestCaptionsOfOneImageAreNegatives(t *testing.T) {
	for _, strategy := range []Strategy{StrategyRandom, StrategyGRIT, StrategyGNS, StrategyJEST, StrategyB3} {
		of := func(negatives bool) (partners, asked int) {
			o := testOptions(strategy)
			o.SameImage, o.Candidates = negatives, o.BatchSize-1
			l := newLog()
			l.addGroup(0, 203, 5)
			for _, b := range batches(drive(t, newTestLane(t, o), l)) {
				for i, s := range b.Samples {
					partners += len(s.Partners)
					for _, way := range [][]int32{b.I2T, b.T2I} {
						for _, j := range way[i*int(b.M) : (i+1)*int(b.M)] {
							if j >= 0 && b.Samples[j].ImageID == s.ImageID {
								asked++
							}
						}
					}
				}
				if err := b.Validate(); err != nil {
					t.Fatalf("%s: %v", strategy, err)
				}
			}
			return partners, asked
		}
		if partners, asked := of(true); partners != 0 || asked == 0 {
			t.Errorf("%s: %d partners, and %d candidates of the same image: want none, and some", strategy, partners, asked)
		}
		if _, asked := of(false); asked != 0 {
			t.Errorf("%s: by default %d candidates show the anchor's image, want none", strategy, asked)
		}
	}
}

// Without its shuffles GRIT reorders pairs within a search space alone: each has the same pairs in every epoch
// (GRIT-VLP Remark 1 and Table 4, row 5). With them they change.
func TestUnshuffledSearchSpacesStay(t *testing.T) {
	spaces := func(features Source) (epochs [][][]int32) {
		o := testOptions(StrategyGRIT)
		o.Features, o.SameImage = features, true
		l := newLog()
		l.addGroup(0, 203, 5)
		order := make([][]int32, o.Epochs)
		for _, b := range batches(drive(t, newTestLane(t, o), l)) {
			for _, s := range b.Samples {
				order[b.Epoch] = append(order[b.Epoch], s.Position)
			}
		}
		for _, pairs := range order {
			if slices.Equal(pairs, order[0]) != (&pairs[0] == &order[0][0]) {
				t.Errorf("%s: an epoch repeats the first", features)
			}
			var sets [][]int32
			for space := range slices.Chunk(slices.Clone(pairs), o.SearchSpace) {
				slices.Sort(space)
				sets = append(sets, space)
			}
			epochs = append(epochs, sets)
		}
		return epochs
	}
	same := func(a, b [][]int32) bool { return slices.EqualFunc(a, b, slices.Equal[[]int32]) }
	got := spaces(SourceUnshuffled)
	for epoch := range got {
		if !same(got[epoch], got[0]) {
			t.Errorf("epoch %d has other search spaces than the first", epoch)
		}
	}
	if shuffled := spaces(SourceTraining); same(shuffled[1], shuffled[0]) {
		t.Error("with the shuffles the second epoch has the search spaces of the first")
	}
}
