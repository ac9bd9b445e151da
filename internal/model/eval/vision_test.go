package eval

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// withVocab gives the test model a vocabulary whose ids are those of testData.
func withVocab(m *model.Model) *model.Model {
	m.Vocab = make([]string, m.Config.VocabSize)
	copy(m.Vocab, []string{"[PAD]", "[CLS]", "[SEP]", "[MASK]"})
	return m
}

// byHand counts the words that a text alone, in a batch of its own, is right about. With counts, only these words.
func byHand(t *testing.T, m *model.Model, d Data, share float64, image bool, counts func(string) bool) (words int, found [2]int) {
	t.Helper()
	must.Do(t, m.Worker().Do(t.Context(), func(s *torch.Scope) error {
		for i, text := range d.Texts {
			draw := rng.New(0, "usage of vision", int64(i), int64(100*share))
			ids, marks, want := make([]int64, len(text)), make([]int64, len(text)), map[int64]int32{}
			for k, id := range text {
				ids[k], marks[k] = int64(id), 1
				if k > 0 && k < len(text)-1 && draw.Float64() < share {
					ids[k] = 3
					if counts == nil || counts(m.Vocab[id]) {
						want[int64(k)] = id
					}
				}
			}
			words += len(want)
			var seen model.View
			if image {
				pixels := make([]float32, 3*32*32)
				if err := d.Pixels(int(d.ImageOf[i]), pixels); err != nil {
					return err
				}
				seen = m.View(s, m.Image(s, s.Float32s(pixels, 1, 3, 32, 32)))
			}
			n := int64(len(text))
			for k, word := range want {
				logits := m.MaskedLogitsAt(s, s.Int64s(ids, 1, n), s.Int64s(marks, 1, n), seen, []int64{k}).Float64s()
				rank := 0
				for _, x := range logits {
					if x > logits[word] {
						rank++
					}
				}
				if rank == 0 {
					found[0]++
				}
				if rank < 5 {
					found[1]++
				}
			}
		}
		return nil
	}))
	return words, found
}

// TestUsageOfVision compares with texts that are looked at one by one. The same words are hidden with and without
// images.
func TestUsageOfVision(t *testing.T) {
	m, d := withVocab(testModel(t)), testData()
	for i := range m.Vocab[4:] {
		m.Vocab[4+i] = strings.Repeat("w", 1+i)
	}
	even := func(word string) bool { return len(word)%2 == 0 }
	for _, run := range []struct {
		batch int
		words func(string) bool
	}{{1, nil}, {5, nil}, {32, nil}, {5, even}} {
		batch := run.batch
		r := must.Get(Evaluate(t.Context(), m, d, Options{TopK: NoRerank, Vision: true, VisionWords: run.words, Batch: batch}))(t)
		if len(r.Vision) != 4 || r.Vision[0].Share != 0.15 || r.Vision[3].Share != 0.75 {
			t.Fatalf("masking probabilities of %+v, want GRIT-VLP's", r.Vision)
		}
		for _, u := range r.Vision {
			for image, got := range map[bool]Accuracy{true: u.With, false: u.Without} {
				words, found := byHand(t, m, d, u.Share, image, run.words)
				want := Accuracy{100 * float64(found[0]) / float64(words), 100 * float64(found[1]) / float64(words)}
				if u.Words != words || got != want || words == 0 {
					t.Errorf("batches of %d, %v masked, image %v: %d words with %+v, want %d with %+v", batch, u.Share, image, u.Words, got, words, want)
				}
			}
		}
	}
}

// Without the image, no pixel has a part in the guesses; with it, one has.
func TestWithoutTheImageNoPixelCounts(t *testing.T) {
	m := withVocab(testModel(t))
	logits := func(scale float32, image bool) (out []float32) {
		must.Do(t, m.Worker().Do(t.Context(), func(s *torch.Scope) error {
			pixels := make([]float32, 3*32*32)
			for i := range pixels {
				pixels[i] = scale * float32(i%7)
			}
			var seen model.View
			if image {
				seen = m.View(s, m.Image(s, s.Float32s(pixels, 1, 3, 32, 32)))
			}
			out = m.MaskedLogitsAt(s, s.Int64s([]int64{1, 3, 8, 2}, 1, 4), s.Int64s([]int64{1, 1, 1, 1}, 1, 4), seen, []int64{1}).Float32s()
			return nil
		}))
		return out
	}
	if !slices.Equal(logits(1, false), logits(-2, false)) {
		t.Error("pixels change guesses without the image")
	}
	if slices.Equal(logits(1, true), logits(-2, true)) || slices.Equal(logits(1, true), logits(1, false)) {
		t.Error("pixels do not change guesses with the image")
	}
}

func TestUsageOfVisionNeedsAMaskedHead(t *testing.T) {
	m := testModel(t) // without a vocabulary
	if _, err := Evaluate(t.Context(), m, testData(), Options{TopK: NoRerank, Vision: true}); err == nil || !strings.Contains(err.Error(), "needs a model with an MLM head") {
		t.Errorf("error %v", err)
	}
}
