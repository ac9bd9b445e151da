package trainer

import (
	"slices"

	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// rowTargets are one direction's hard targets. They have a row per anchor, and a column per sample of the batch and then
// per entry of the queue. Few elements are not 0, and only those travel to the device: a queue of 65,536 makes 50 MB of
// zeros for 96 anchors.
type rowTargets struct {
	rows, columns int
	places        []int64   // row*columns + column of each element that is not 0
	values        []float64 // of these; those of a row sum to 1
	drop          []int64   // places that [ECMOptions.Eliminate] takes out of a row
}

// hardTargets returns the targets before any softening. An anchor's row is shared equally by its own pair, its connection,
// and the samples and queue entries that show the same image. The last are as in ALBEF's retrieval fine-tuning. A
// connection is not mirrored into the other direction's rows, in MAFA's paper and code alike.
func hardTargets(samples []schemas.Sample, queue []schemas.ImageID, picks []pick, ecm ECMOptions) rowTargets {
	n := len(samples)
	t := rowTargets{rows: n, columns: n + len(queue)}
	queued := queuedOf(samples, queue)
	for anchor, sample := range samples {
		columns := []int{anchor}
		for _, j := range sample.Partners {
			columns = append(columns, int(j))
		}
		for _, j := range queued[sample.ImageID] {
			columns = append(columns, n+j)
		}
		first := int64(anchor * t.columns)
		if k := picks[anchor]; k.class == Connection && ecm.ITC {
			if ecm.Eliminate {
				t.drop = append(t.drop, first+int64(k.hardest))
			} else {
				columns = append(columns, int(k.hardest))
			}
		}
		slices.Sort(columns)
		columns = slices.Compact(columns)
		for _, j := range columns {
			t.places, t.values = append(t.places, first+int64(j)), append(t.values, 1/float64(len(columns)))
		}
	}
	return t
}

// queuedOf lists the entries of the queue that show an image of the batch.
func queuedOf(samples []schemas.Sample, queue []schemas.ImageID) map[schemas.ImageID][]int {
	found := make(map[schemas.ImageID][]int, len(samples))
	for i := range samples {
		found[samples[i].ImageID] = nil
	}
	for j, id := range queue {
		if at, wanted := found[id]; wanted {
			found[id] = append(at, j)
		}
	}
	return found
}

// hard makes the targets on the device: [rows, columns].
func (t rowTargets) hard(s *torch.Scope, dtype torch.DType) *torch.Tensor {
	x := s.Zeros(dtype, int64(t.rows*t.columns))
	n := int64(len(t.places))
	x.IndexAdd(0, s.Int64s(t.places, n), s.To(s.Float64s(t.values, n), dtype))
	return s.Reshape(x, int64(t.rows), int64(t.columns))
}

// dropped makes a mask [rows, columns] of what is taken out of its row on the device; nil: nothing is.
func (t rowTargets) dropped(s *torch.Scope) *torch.Tensor {
	if len(t.drop) == 0 {
		return nil
	}
	x := s.Zeros(torch.Bool, int64(t.rows*t.columns))
	x.IndexFill(0, s.Int64s(t.drop, int64(len(t.drop))), 1)
	return s.Reshape(x, int64(t.rows), int64(t.columns))
}
