package discriminator

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/schemas"
)

// epochs returns mini-batches of a group's pairs, drawn anew in every epoch, with three candidates each, and their
// inputs. Sample i of all pairs has image i and text i of in.
func epochs(n, batch, count int, in Input) (batches []*schemas.Batch, inputs []Input) {
	values := len(in.Pixels) / n
	for epoch := range int32(count) {
		order := rng.New(9, "epochs", int64(epoch)).Perm(n)
		for at := 0; at < n; at += batch {
			b := &schemas.Batch{Group: schemas.GroupID{Seq: 3}, Epoch: epoch, M: 3, Batches: 1}
			var own Input
			chosen := order[at:min(at+batch, n)]
			for i, pair := range chosen {
				image := schemas.NewImageID([]byte{byte(pair)})
				b.Samples = append(b.Samples, schemas.Sample{ImageID: image, Text: string(rune('a' + pair))})
				own.IDs = append(own.IDs, in.IDs[pair])
				own.Pixels = append(own.Pixels, in.Pixels[pair*values:(pair+1)*values]...)
				for k := range 3 {
					b.I2T = append(b.I2T, int32((i+k+1)%len(chosen)))
					b.T2I = append(b.T2I, int32((i+len(chosen)-k-1)%len(chosen)))
				}
			}
			b.I2T[1] = -1
			batches, inputs = append(batches, b), append(inputs, own)
		}
	}
	return batches, inputs
}

// What is kept changes no bit: neither when all is kept, nor when nearly nothing is, nor behind a new start in the
// middle.
func TestKeptScoresAreTheSameBits(t *testing.T) {
	const n, batch, count = 40, 12, 6
	in := randomInput(n)
	batches, inputs := epochs(n, batch, count, in)
	run := func(part, most, anew int, bytes int64) (values []map[schemas.PairID]float32, kept *Kept) {
		d := newConD(t, part)
		kept = NewKept(most, bytes)
		for i, b := range batches {
			if i == anew {
				kept = NewKept(most, bytes)
			}
			input := inputs[i]
			input.Kept = kept
			input = held(input, b)
			scored := score(t, d, b, input)
			of := map[schemas.PairID]float32{}
			for k := range b.I2T {
				anchor := int32(k / int(b.M))
				for _, c := range []struct {
					image, text int32
					p           float32
				}{{anchor, b.I2T[k], scored.ProbI2T[k]}, {b.T2I[k], anchor, scored.ProbT2I[k]}} {
					if c.image >= 0 && c.text >= 0 {
						of[schemas.NewPairID(b.Samples[c.image].ImageID, b.Samples[c.text].Text)] = c.p
					} else if c.p != 0 {
						t.Errorf("a gap is scored %v", c.p)
					}
				}
			}
			values = append(values, of)
		}
		return values, kept
	}
	want, kept := run(16, 1<<20, -1, 1<<20)
	if n := kept.Counts(); n.Kept == 0 || n.Computed == 0 || n.RuledOut != 0 {
		t.Fatalf("%+v: the test says nothing", n)
	}
	first := map[schemas.PairID]float32{}
	for i, of := range want {
		for pair, p := range of {
			if before, seen := first[pair]; seen && !torchtest.Same(before, p) {
				t.Fatalf("batch %d: a pair has %v, and had %v", i, p, before)
			}
			first[pair] = p
		}
	}
	for _, c := range []struct {
		part, most, anew int
		bytes            int64
	}{{16, 20, -1, 1 << 20}, {16, 2, -1, 0}, {16, 2, -1, 20000}, {16, 1 << 20, -1, 0}, {5, 1 << 20, -1, 1 << 20}, {64, 1 << 20, 7, 1 << 20}} {
		got, _ := run(c.part, c.most, c.anew, c.bytes)
		for i := range want {
			if !maps.EqualFunc(got[i], want[i], torchtest.Same) {
				t.Fatalf("%+v: batch %d has other values", c, i)
			}
		}
	}
}

// held leaves out the pixels of images that are kept.
func held(in Input, b *schemas.Batch) Input {
	var spared []int32
	in.Held, spared = in.Kept.Hold(b, nil)
	in.Pixels = slices.Clone(in.Pixels)
	values := len(in.Pixels) / len(in.IDs)
	for _, i := range spared {
		clear(in.Pixels[int(i)*values : int(i+1)*values])
	}
	return in
}

// The cache holds nothing of a forgotten image: a caller that loads the image must get the error.
func TestNothingIsHeldOfWhatIsTakenBack(t *testing.T) {
	const n = 6
	in, b := randomInput(n), named(n)
	in.Kept = NewKept(1<<20, 1<<20)
	score(t, newConD(t, 16), b, in)
	gone := b.Samples[2].ImageID
	encodings, samples := in.Kept.Hold(b, func(id schemas.ImageID) bool { return id == gone })
	if want := []int32{0, 1, 3, 4, 5}; !slices.Equal(samples, want) || encodings[2].Vector != nil || encodings[2].Tokens != nil {
		t.Errorf("images of samples %v are held, want %v", samples, want)
	}
}

// named is a batch of different pairs, with the N-1 others as candidates.
func named(n int) *schemas.Batch {
	b := allCandidates(n)
	for i := range b.Samples {
		b.Samples[i].Text = string(rune('a' + i))
		b.Samples[i].ImageID = schemas.NewImageID([]byte{byte(i)})
	}
	return b
}

// Values of kept and of other scores differ by no more than roundings: of encodings to float16, and of padding and
// blocks.
func TestKeptScoresAreThoseOfAllPairs(t *testing.T) {
	const n = 9
	d, in := newConD(t, 16), randomInput(n)
	b := named(n)
	plain := score(t, d, b, in)
	in.Kept = NewKept(1000, 1<<20)
	kept := score(t, d, b, in)
	for k := range plain.ProbI2T {
		for _, v := range [][2]float32{{plain.ProbI2T[k], kept.ProbI2T[k]}, {plain.ProbT2I[k], kept.ProbT2I[k]}} {
			if diff := v[0] - v[1]; diff > 1e-3 || diff < -1e-3 {
				t.Errorf("candidate %d: %v, want about %v", k, v[1], v[0])
			}
		}
	}
}

// Another group begins with nothing, and a text that was replaced is another text.
func TestKeptForgetsGroups(t *testing.T) {
	const n = 6
	d, in := newConD(t, 16), randomInput(n)
	in.Kept = NewKept(1000, 1<<20)
	b := named(n)
	counts := func(want int64) {
		t.Helper()
		before := in.Kept.Counts()
		score(t, d, b, in)
		if after := in.Kept.Counts(); after.Kept-before.Kept != want {
			t.Errorf("%d scores were kept, want %d", after.Kept-before.Kept, want)
		}
	}
	counts(0)
	counts(n * (n - 1))
	b.Samples[2].Text, b.Samples[2].Replaced = "obj", true
	counts((n - 1) * (n - 1))
	b.Group.Seq++
	counts(0)
	b.Group.Seq-- // its next epoch, where a lane goes from group to group in each
	counts(n * (n - 1))
}

func TestKeptRefusesOddInputs(t *testing.T) {
	const n = 6
	d, in := newConD(t, 16), randomInput(n)
	in.Kept = NewKept(10, 1<<20)
	b := allCandidates(n)
	for i := range b.Samples {
		b.Samples[i].Text = string(rune('a' + i))
	}
	for name, change := range map[string]func(*Input){
		"fewer texts":   func(in *Input) { in.IDs = in.IDs[1:] },
		"an empty text": func(in *Input) { in.IDs = append([][]int32{{}}, in.IDs[1:]...) },
		"a long text":   func(in *Input) { in.IDs = append([][]int32{make([]int32, smallConfig.TextTokens+1)}, in.IDs[1:]...) },
		"fewer held":    func(in *Input) { in.Held = make([]model.Encoding, n-1) },
		"fewer pixels":  func(in *Input) { in.Pixels = in.Pixels[:len(in.Pixels)/2] },
	} {
		odd := in
		change(&odd)
		if _, err := d.Score(t.Context(), b, odd); !errors.Is(err, model.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
