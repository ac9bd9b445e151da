package grouper

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// largest makes the largest scored batch of n samples with m candidates: one image for all, or one each.
func largest(t *testing.T, n, m int, oneImage bool) int64 {
	t.Helper()
	uri := "s3://" + strings.Repeat("b", schemas.MaxURIBytes-5-1-1024) + "/" + strings.Repeat("u", 1024)
	b := &schemas.ScoredBatch{
		Batch: schemas.Batch{
			Group: schemas.GroupID{Lane: 1 << 30, Seq: 1 << 60}, Epoch: 1 << 30, Sequence: 1 << 29, Batches: 1 << 30, Strategy: "random", M: int32(m),
		},
		Model: strings.Repeat("m", schemas.MaxNameBytes),
	}
	image := func(i int) schemas.ImageID {
		if oneImage {
			i = 0
		}
		return schemas.NewImageID([]byte{byte(i), byte(i >> 8)})
	}
	for i := range n {
		caption := strings.Repeat("c", schemas.MaxCaptionBytes-5) + string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676)})
		ref := schemas.ImageRef{URI: uri, Offset: 1 << 60, Size: schemas.MaxImageBytes}
		s := schemas.Sample{
			ID: schemas.NewPairID(image(i), caption), ImageID: image(i), Image: ref, Text: caption, Position: 1 << 30,
			Positive: &schemas.Positive{ImageID: image(i), Image: ref},
		}
		candidates := m
		if oneImage {
			candidates = 0
			for j := range n {
				if j != i {
					s.Partners = append(s.Partners, int32(j))
				}
			}
		}
		for j := range m {
			c, p := int32(-1), float32(0)
			if j < candidates {
				c, p = int32((i+1+j)%n), 0.5
			}
			b.I2T, b.T2I = append(b.I2T, c), append(b.T2I, c)
			b.ProbI2T, b.ProbT2I = append(b.ProbI2T, p), append(b.ProbT2I, p)
		}
		b.Samples = append(b.Samples, s)
	}
	for i := range n {
		if m == 0 { // what is masked has no probabilities
			b.Masked = append(b.Masked, schemas.Mask{Sample: int32(i), Reason: schemas.MaskForbidden}, schemas.Mask{Sample: int32(i), Positive: true, Reason: schemas.MaskForbidden})
		}
	}
	raw := must.Get(schemas.Marshal(b))(t)
	return int64(len(raw))
}

func TestNoBatchIsLargerThanTheLargest(t *testing.T) {
	for _, test := range []struct{ n, m int }{{1, 0}, {2, 1}, {64, 0}, {64, 63}, {200, 199}} {
		for _, oneImage := range []bool{false, true} {
			got := largest(t, test.n, test.m, oneImage)
			if most := (Options{BatchSize: test.n, Candidates: test.m}).LargestRecord(); got > most || most > 2*got && test.n > 2 {
				t.Errorf("N = %d, m = %d, one image %t: %d bytes, at most %d", test.n, test.m, oneImage, got, most)
			}
		}
	}
}
