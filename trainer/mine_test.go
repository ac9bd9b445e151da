package trainer

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

func TestClassOf(t *testing.T) {
	ecm := MAFA().ECM
	for p, want := range map[float32]Class{
		0: Negative, 0.49999997: Negative, 0.5: Ambiguous, 0.65: Ambiguous, 0.8: Ambiguous, 0.80000007: Connection, 1: Connection,
	} {
		if got := ecm.ClassOf(p); got != want {
			t.Errorf("probability %v is class %d, want %d", p, got, want)
		}
	}
	ecm.High, ecm.Low = 0.5, 0.5
	if got := ecm.ClassOf(0.5); got != Ambiguous {
		t.Errorf("probability 0.5 with both thresholds at 0.5 is class %d, want ambiguous", got)
	}
}

// batchOf makes a batch of n samples whose candidates are the same for both directions.
func batchOf(n, m int, list []int32, prob []float32) *schemas.ScoredBatch {
	return &schemas.ScoredBatch{
		Batch:   schemas.Batch{Samples: make([]schemas.Sample, n), M: int32(m), I2T: list, T2I: list, Batches: 1},
		ProbI2T: prob, ProbT2I: prob,
	}
}

func TestMine(t *testing.T) {
	sim := []float32{
		9, 1, 3, 2,
		4, 9, 4, 1,
		1, 2, 9, 3,
		0, 0, 0, 9,
	}
	partners := batchOf(4, 0, nil, nil)
	partners.Samples[0].Partners = schemas.Int32s{2}
	partners.Samples[2].Partners = schemas.Int32s{0}
	alone := batchOf(4, 0, nil, nil)
	for i := range alone.Samples {
		for j := range int32(4) {
			if int(j) != i {
				alone.Samples[i].Partners = append(alone.Samples[i].Partners, j)
			}
		}
	}
	none := pick{-1, -1, NoCandidate}
	for _, c := range []struct {
		name  string
		batch *schemas.ScoredBatch
		want  []pick
	}{
		{
			"not scored: all others, none a connection", batchOf(4, 0, nil, nil),
			[]pick{{2, 3, Negative}, {0, 2, Negative}, {3, 1, Negative}, {0, 1, Negative}},
		},
		{
			"the scored hardest, though the true hardest is another", batchOf(4, 1, []int32{1, 3, 0, 2}, []float32{0.9, 0.6, 0.1, 0.8}),
			[]pick{{1, -1, Connection}, {3, -1, Ambiguous}, {0, -1, Negative}, {2, -1, Ambiguous}},
		},
		{
			"order by the current similarity, not by the list", batchOf(4, 2, []int32{1, 2, 2, 0, 0, 3, 1, 2}, []float32{0.9, 0.1, 0.9, 0.6, 0.6, 0.9, 0, 0.9}),
			[]pick{{2, 1, Negative}, {0, 2, Ambiguous}, {3, 0, Connection}, {1, 2, Negative}},
		},
		{
			"no candidate", batchOf(4, 1, []int32{-1, 0, -1, 0}, []float32{0, 0.9, 0, 0}),
			[]pick{none, {0, -1, Connection}, none, {0, -1, Negative}},
		},
		{
			"partners are never negatives", partners,
			[]pick{{3, 1, Negative}, {0, 2, Negative}, {3, 1, Negative}, {0, 1, Negative}},
		},
		{"all others are partners", alone, []pick{none, none, none, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i2t, t2i := directions(c.batch, MAFA().ECM)
			if got := i2t.mine(sim, 4, twoHardest); !slices.Equal(got, c.want) {
				t.Errorf("images: %v, want %v", got, c.want)
			}
			if got := t2i.mine(sim, 4, twoHardest); !slices.Equal(got, c.want) {
				t.Errorf("texts: %v, want %v", got, c.want)
			}
		})
	}
}

func TestMineReadsOnlyTheBatchColumns(t *testing.T) {
	i2t, _ := directions(batchOf(2, 0, nil, nil), MAFA().ECM)
	sim := []float32{1, 0, 7, 7, 0, 1, 7, 7} // two queue columns
	if got, want := i2t.mine(sim, 4, twoHardest), []pick{{1, -1, Negative}, {0, -1, Negative}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestScoredCounts(t *testing.T) {
	i2t, _ := directions(batchOf(2, 2, []int32{1, -1, 0, -1}, []float32{0.9, 0, 0.8, 0}), MAFA().ECM)
	if total, connections := i2t.scored(); total != 2 || connections != 1 {
		t.Errorf("%d candidates, %d connections, want 2 and 1", total, connections)
	}
}

// The hardest of all samples is looked for among the candidates. Partners are never anyone's hardest.
func TestHardestScored(t *testing.T) {
	sim := []float32{
		9, 1, 3, 2,
		4, 9, 4, 1,
		1, 2, 9, 3,
		0, 5, 8, 9,
	}
	b := batchOf(4, 1, []int32{2, 3, 3, 1}, []float32{0, 0, 0, 0}) // without partners the hardest are 2, 0, 3 and 2
	b.Samples[3].Partners, b.Samples[2].Partners = schemas.Int32s{2}, schemas.Int32s{3}
	b.I2T[2] = 1 // the hardest of sample 2 besides its partner
	i2t, _ := directions(b, MAFA().ECM)
	if anchors, scored := i2t.hardestScored(sim, 4); anchors != 4 || scored != 3 {
		t.Errorf("the hardest of %d of %d anchors were scored, want 3 of 4", scored, anchors)
	}
	i2t, _ = directions(batchOf(4, 0, nil, nil), MAFA().ECM)
	if anchors, scored := i2t.hardestScored(sim, 4); anchors != 0 || scored != 0 {
		t.Errorf("a batch that nobody scored has %d anchors, %d scored", anchors, scored)
	}
}

// The threshold of a record comes before that of the options.
func TestThresholdOfTheRecord(t *testing.T) {
	b := batchOf(2, 1, []int32{1, 0}, []float32{0.7, 0.7})
	for high, want := range map[float64]Class{0: Ambiguous, 0.6: Connection, 0.7: Ambiguous, 0.3: Connection} {
		b.High = high
		i2t, t2i := directions(b, MAFA().ECM)
		if got := i2t.classify(0.7); got != want || t2i.classify(0.7) != want {
			t.Errorf("0.7 with a record's threshold of %g is class %d, want %d", high, got, want)
		}
	}
}
