package trainer

import (
	"fmt"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/schemas"
)

// UsedNegatives returns the negatives of ITM in the step of a batch: for every image the sample of its text, for every
// text the sample of its image. -1 means none, because a connection took its place or there was no candidate. It
// repeats the step's choice with the features that the step published. These are float16, so of two equally near
// candidates it may return the other. Drawn negatives cannot be recovered, because the temperature is not published.
func UsedNegatives(b *schemas.ScoredBatch, f *schemas.FeatureBlock, o Options) (ofImage, ofText []int32, err error) {
	n, dim := len(b.Samples), int(f.Dim)
	if o.ITMNegatives != HardestNegatives {
		var l invalid.List
		l.Want(false, "%s is %q, want %q: the log does not tell which ones were drawn",
			invalid.Field("ITMNegatives"), o.ITMNegatives, HardestNegatives)
		return nil, nil, l.Err()
	}
	if len(f.Positions) != n || f.V.Len() != n*dim || f.T.Len() != n*dim {
		return nil, nil, fmt.Errorf("batch %d of group %s has %d samples and %d features", b.Sequence, b.Group, n, len(f.Positions))
	}
	v, t := f.V.Floats(), f.T.Floats()
	masked := make([]bool, n)
	for _, m := range f.Masked {
		masked[m.Sample] = true
	}
	i2t, t2i := directions(b, o.ECM)
	used := func(c candidates, anchors, others []float32) []int32 {
		out, probs := make([]int32, n), make([]float32, n)
		for anchor := range out {
			if out[anchor] = -1; masked[anchor] {
				continue
			}
			eligible, row := c.eligible(anchor, probs), make([]float32, n)
			for j := range row {
				eligible[j] = eligible[j] && !masked[j]
				for k := range dim {
					row[j] += anchors[anchor*dim+k] * others[j*dim+k]
				}
			}
			out[anchor] = o.ECM.usedOf(c, probs, row, eligible)
		}
		return out
	}
	return used(i2t, v, t), used(t2i, t, v), nil
}

// usedOf returns the negative of an anchor as planITM takes it.
func (o ECMOptions) usedOf(c candidates, probs, row []float32, eligible []bool) int32 {
	hardest, second := twoHardest(row, eligible)
	if hardest < 0 || c.m == 0 || !o.ITM {
		return hardest
	}
	switch c.classify(probs[hardest]) {
	case Connection:
		return -1
	case Ambiguous:
		return second
	case Negative, NoCandidate:
	}
	return hardest
}
