package trainer

import "github.com/pairstream/pairstream/schemas"

// rowTargets are one direction's hard targets. They have a row per anchor, and a column per sample of the batch and then
// per entry of the queue.
type rowTargets struct {
	columns int
	values  []float64 // every row sums to 1
	drop    []bool    // what [ECMOptions.Eliminate] takes out of a row; nil: nothing
}

// hardTargets returns the targets before any softening. An anchor's row is shared equally by its own pair, its connection,
// and the samples and queue entries that show the same image. The last are as in ALBEF's retrieval fine-tuning. A
// connection is not mirrored into the other direction's rows, in MAFA's paper and code alike.
func hardTargets(samples []schemas.Sample, queue []schemas.ImageID, picks []pick, ecm ECMOptions) rowTargets {
	n := len(samples)
	t := rowTargets{columns: n + len(queue)}
	t.values = make([]float64, n*t.columns)
	for anchor, sample := range samples {
		row := t.values[anchor*t.columns : (anchor+1)*t.columns]
		row[anchor] = 1
		for _, j := range sample.Partners {
			row[j] = 1
		}
		for j, id := range queue {
			if id == sample.ImageID {
				row[n+j] = 1
			}
		}
		if k := picks[anchor]; k.class == Connection && ecm.ITC {
			if ecm.Eliminate {
				if t.drop == nil {
					t.drop = make([]bool, len(t.values))
				}
				t.drop[anchor*t.columns+int(k.hardest)] = true
			} else {
				row[k.hardest] = 1
			}
		}
		share(row)
	}
	return t
}

// share scales a row of marks to a sum of 1.
func share(row []float64) {
	sum := 0.0
	for _, v := range row {
		sum += v
	}
	for j := range row {
		row[j] /= sum
	}
}
