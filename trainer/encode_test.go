package trainer

import (
	"bytes"
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// Features made anew are those that a step would publish, without dropout. Making them changes nothing.
func TestEncode(t *testing.T) {
	o := everything()
	o.Dropout = 0.3
	tr := testTrainer(t, o)
	before := fingerprint(t, tr)
	got := must.Get(tr.Encode(context.Background(), testBatch(4, 0), testInput(4, 0)))(t)
	if fingerprint(t, tr) != before || tr.Batches() != 0 || tr.model.Dropout() != 0.3 {
		t.Error("the trainer changed")
	}
	o.Dropout = 0
	plain := testTrainer(t, o)
	want := mustStep(t, plain, testBatch(4, 0), testInput(4, 0)).Features
	if !bytes.Equal(got.V, want.V) || !bytes.Equal(got.T, want.T) || got.Step != 0 || len(got.Positions) != 4 {
		t.Error("the features are not those of a step without dropout")
	}
	after, err := plain.Encode(context.Background(), testBatch(4, 0), testInput(4, 0))
	if err != nil || bytes.Equal(after.V, want.V) || after.Step != 1 {
		t.Errorf("a step later they are the same (%v), of step %d", err, after.Step)
	}
	masked, err := tr.Encode(context.Background(), maskSamples(testBatch(4, 0), 3), testInput(4, 0))
	if err != nil || len(masked.Masked) != 1 || masked.Masked[0].Sample != 3 {
		t.Errorf("masks %v, %v", masked.Masked, err)
	}
}
