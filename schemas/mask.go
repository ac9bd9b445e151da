package schemas

// The reasons of a [Mask] and of a [Refusal].
const (
	MaskMissing   = "missing"   // the object is gone, or ends before the image
	MaskChanged   = "changed"   // the bytes are another image's
	MaskForbidden = "forbidden" // the bucket does not hand the object out, or its roots do not cover it
	MaskUnusable  = "unusable"  // the bytes are there, but are no image that may be decoded
	MaskFiltered  = "filtered"  // the pair does not meet a rule of the crawl; of a refusal alone
	MaskForgotten = "forgotten" // the pair is taken back
	MaskInline    = "inline"    // the image came inline, and there is no folder to put it in; of a refusal alone
)

// Mask takes one image of a batch out of training: it could be read when the pair was embedded, and cannot be now. The
// sample keeps its row everywhere, so no other row moves. Its pixels are 0, it has no part in any loss, neither as an
// anchor nor as a candidate, and its row of features still travels.
type Mask struct {
	Sample   int32  `msgpack:"sample"`             // its place in the batch
	Positive bool   `msgpack:"positive,omitempty"` // only the image of its positive: the sample's own image stands in for that
	Reason   string `msgpack:"reason"`             // why, in a word; readers take any
}

// validateMasks checks that masks name samples of a batch of n, each image once, in order.
func validateMasks(masks []Mask, n int) error {
	for i, m := range masks {
		if m.Sample < 0 || int(m.Sample) >= n {
			return invalid("sample %d of %d is masked", m.Sample, n)
		}
		if i > 0 && !masks[i-1].before(m) {
			return invalid("mask %d is of sample %d, after sample %d: want each once, in order", i, m.Sample, masks[i-1].Sample)
		}
		if err := validateName("reason of a mask", m.Reason, MaxNameBytes); err != nil {
			return err
		}
	}
	return nil
}

func (m Mask) before(o Mask) bool {
	return m.Sample < o.Sample || m.Sample == o.Sample && !m.Positive && o.Positive
}
