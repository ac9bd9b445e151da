package negatives

import (
	"errors"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// Features come in the order of the batches, with those of other batches between them.
func TestBlocksBelongToTheirBatch(t *testing.T) {
	broken := errors.New("the log is cut")
	blocks := []*schemas.FeatureBlock{{Epoch: 0, Sequence: 0}, {Epoch: 0, Sequence: 1}, {Epoch: 1, Sequence: 0}, nil}
	next := func() (*schemas.FeatureBlock, error, bool) {
		if len(blocks) == 0 {
			return nil, nil, false
		}
		b := blocks[0]
		if blocks = blocks[1:]; b == nil {
			return nil, broken, true
		}
		return b, nil, true
	}
	for _, want := range []schemas.ScoredBatch{{Batch: schemas.Batch{Epoch: 0, Sequence: 1}}, {Batch: schemas.Batch{Epoch: 1, Sequence: 0}}} {
		if got, err := blockOf(&want, next); err != nil || got == nil || got.Epoch != want.Epoch || got.Sequence != want.Sequence {
			t.Errorf("epoch %d, batch %d: features %+v, error %v", want.Epoch, want.Sequence, got, err)
		}
	}
	later := &schemas.ScoredBatch{Batch: schemas.Batch{Epoch: 1, Sequence: 1}}
	if got, err := blockOf(later, next); got != nil || !errors.Is(err, broken) {
		t.Errorf("features %+v, error %v, want the log's", got, err)
	}
	if got, err := blockOf(later, next); got != nil || err != nil {
		t.Errorf("features %+v, error %v, want neither at the end", got, err)
	}
}

func TestBoundsOfTheCount(t *testing.T) {
	for _, o := range []Options{{Epoch: -1}, {Batches: -1}, {Above: -0.1}, {Above: 1}} {
		if r, err := o.Count(t.Context(), nil, Settings{}); r != nil || err == nil || !strings.HasPrefix(err.Error(), "--epoch is ") {
			t.Errorf("%+v: %+v, %v, want an error that names the flags", o, r, err)
		}
	}
}

func TestSharesArePrinted(t *testing.T) {
	r := Report{Epoch: 2, Batches: 3}
	for _, p := range []float32{0.5, 0.51, 0.9, 0} {
		r.OfImage.add(p, 0.5)
	}
	r.OfText.add(0.5, 0.5)
	print := func() string {
		var out strings.Builder
		must.Do(t, r.Print(&out))
		return out.String()
	}
	want := "epoch 2, 3 mini-batches\nfalse negatives of images: 2 of 4 (50.0 %)\nfalse negatives of texts: 0 of 1 (0.0 %)\n"
	if got := print(); got != want {
		t.Errorf("it prints\n%swant\n%s", got, want)
	}
	r.Lost = 7
	if got := print(); got != want+"7 negatives have no image any more\n" {
		t.Errorf("it prints\n%s", got)
	}
}
