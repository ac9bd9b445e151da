package trainer

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

var testVocabulary = Vocabulary{Size: 1000, Pad: 0, CLS: 1, Mask: 3}

func TestMaskTokens(t *testing.T) {
	ids := []int32{1}
	for i := range int32(20_000) {
		ids = append(ids, 500+i%7)
	}
	ids = append(ids, 2, 0, 0) // [SEP] and padding
	masked, labels := testVocabulary.MaskTokens(ids, 0.5, rng.New(7, "mlm"))
	var selected, hidden, kept, changed int
	for i, id := range ids {
		switch {
		case labels[i] == IgnoreLabel:
			if masked[i] != id {
				t.Fatalf("token %d was changed without being asked for", i)
			}
		case id == 0 || id == 1:
			t.Fatalf("token %d (id %d) was selected", i, id)
		case labels[i] != int64(id):
			t.Fatalf("label of token %d is %d, want %d", i, labels[i], id)
		default:
			selected++
			switch masked[i] {
			case 3:
				hidden++
			case id:
				kept++
			default:
				changed++
			}
		}
	}
	share := func(name string, n, of int, want float64) {
		if got := float64(n) / float64(of); got < want-0.015 || got > want+0.015 {
			t.Errorf("share %s is %.3f, want about %.2f", name, got, want)
		}
	}
	share("selected", selected, 20_000, 0.5)
	share("hidden", hidden, selected, 0.8)
	share("kept", kept, selected, 0.1)
	share("changed", changed, selected, 0.1)
}

func TestMaskTokensIsKeyed(t *testing.T) {
	ids := []int32{1, 500, 501, 502, 503, 504, 505, 506, 507, 2}
	a, la := testVocabulary.MaskTokens(ids, 0.5, rng.New(7, "mlm", 1))
	b, lb := testVocabulary.MaskTokens(ids, 0.5, rng.New(7, "mlm", 1))
	if !slices.Equal(a, b) || !slices.Equal(la, lb) {
		t.Error("the same key gives two masks")
	}
	if c, lc := testVocabulary.MaskTokens(ids, 0.5, rng.New(7, "mlm", 2)); slices.Equal(a, c) && slices.Equal(la, lc) {
		t.Error("another key gives the same mask")
	}
}

func TestMaskTokensAtTheEnds(t *testing.T) {
	ids := []int32{1, 500, 2, 0}
	if _, labels := testVocabulary.MaskTokens(ids, 0, rng.New(7, "mlm")); slices.ContainsFunc(labels, func(l int64) bool { return l != IgnoreLabel }) {
		t.Errorf("probability 0 selected something: %v", labels)
	}
	_, labels := testVocabulary.MaskTokens(ids, 1, rng.New(7, "mlm"))
	if want := []int64{IgnoreLabel, 500, 2, IgnoreLabel}; !slices.Equal(labels, want) {
		t.Errorf("probability 1 selected %v, want %v ([SEP] too)", labels, want)
	}
}

func TestVocabularyOf(t *testing.T) {
	got, err := VocabularyOf([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"})
	if want := (Vocabulary{Size: 6, Pad: 0, CLS: 2, Mask: 4}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := VocabularyOf([]string{"[PAD]", "[CLS]"}); err == nil {
		t.Error("a vocabulary without [MASK] was accepted")
	}
}

// Every part of a batch's name keys its masks, and so does the seed.
func TestMaskerIsKeyedByTheBatch(t *testing.T) {
	texts := [][]int32{make([]int32, 200)}
	for i := range texts[0] {
		texts[0][i] = int32(5 + i%30)
	}
	labels := func(seed uint64, change func(b *schemas.ScoredBatch)) []int64 {
		o := MAFA()
		o.Seed = seed
		b := unscored(1)
		change(b)
		return (&Trainer{options: o, vocabulary: testVocabulary}).masker(b)(texts).labels[0]
	}
	same := func(*schemas.ScoredBatch) {}
	base := labels(7, same)
	if !slices.Equal(base, labels(7, same)) {
		t.Error("the same batch gets two masks")
	}
	for name, other := range map[string][]int64{
		"seed":     labels(8, same),
		"lane":     labels(7, func(b *schemas.ScoredBatch) { b.Group.Lane = 1 }),
		"group":    labels(7, func(b *schemas.ScoredBatch) { b.Group.Seq = 1 }),
		"epoch":    labels(7, func(b *schemas.ScoredBatch) { b.Epoch = 1 }),
		"sequence": labels(7, func(b *schemas.ScoredBatch) { b.Sequence = 1 }),
	} {
		if slices.Equal(base, other) {
			t.Errorf("another %s gets the same mask", name)
		}
	}
}
