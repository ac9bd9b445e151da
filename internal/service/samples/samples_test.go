package samples_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/schemas"
)

// album has pictures of one colour each, by id.
type album map[schemas.ImageID]byte

func (a album) Get(_ context.Context, _ schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	grey, ok := a[id]
	if !ok {
		return nil, errors.New("no such picture")
	}
	im := imaging.New(8, 8)
	for i := range im.Pix {
		im.Pix[i] = grey + byte(i%5) // so that mirroring and cropping show
	}
	return im, nil
}

const size = 4

var vocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog"}

func newLoader(t *testing.T, a samples.Augmentation, seed uint64) *samples.Loader {
	t.Helper()
	l, err := samples.NewLoader(album{{1}: 10, {2}: 90, {3}: 170}, size, 4, vocab, seed, a)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newBatch() *schemas.Batch {
	return &schemas.Batch{Samples: []schemas.Sample{
		{ImageID: schemas.ImageID{1}, Text: "cat"},
		{ImageID: schemas.ImageID{2}, Text: "a cat, a dog and a cat", Positive: &schemas.Positive{ImageID: schemas.ImageID{3}}},
	}}
}

func load(t *testing.T, f func(context.Context, *schemas.Batch) ([]float32, error), b *schemas.Batch) [][]float32 {
	t.Helper()
	pixels, err := f(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(pixels, 3*size*size))
}

// brightness is about what a picture's first channel shows.
func brightness(pixels []float32) float64 {
	sum := 0.0
	for _, v := range pixels[:size*size] {
		sum += float64(v*imaging.CLIPStd[0]+imaging.CLIPMean[0]) * 255 / (size * size)
	}
	return sum
}

// GPN-S section 3.3.2: a sample without an equivalent image gets another augmentation of its own.
func TestPositives(t *testing.T) {
	l := newLoader(t, samples.Augmentation{MinScale: 1, Color: 0.2, Workers: 2}, 1)
	images, positives := load(t, l.Images, newBatch()), load(t, l.Positives, newBatch())
	if slices.Equal(images[0], positives[0]) {
		t.Error("a sample without a positive gets its own image, augmented alike")
	}
	for i, want := range []float64{12, 172} {
		if got := brightness(positives[i]); got < 0.75*want || got > 1.25*want {
			t.Errorf("the positive of sample %d is of brightness %.0f, want about %.0f", i, got, want)
		}
	}
}

// The trainer and Con-D see the same pixels, and a repeated batch looks the same; another place looks different.
func TestAugmentationIsKeyedByThePlace(t *testing.T) {
	a := samples.Augmentation{MinScale: 0.5, Flip: 0.5, Color: 0.2, Workers: 2}
	base := load(t, newLoader(t, a, 1).Images, newBatch())
	one := a
	one.Workers = 1
	if again := load(t, newLoader(t, one, 1).Images, newBatch()); !slices.EqualFunc(base, again, slices.Equal) {
		t.Error("the same batch was augmented in two ways")
	}
	for name, change := range map[string]func(*schemas.Batch){
		"epoch":    func(b *schemas.Batch) { b.Epoch = 1 },
		"sequence": func(b *schemas.Batch) { b.Sequence = 1 },
		"group":    func(b *schemas.Batch) { b.Group.Seq = 1 },
		"lane":     func(b *schemas.Batch) { b.Group.Lane = 1 },
		"row":      func(b *schemas.Batch) { b.Samples[0], b.Samples[1] = b.Samples[1], b.Samples[0] },
	} {
		b := newBatch()
		change(b)
		other := load(t, newLoader(t, a, 1).Images, b)
		if name == "row" {
			slices.Reverse(other)
		}
		if slices.Equal(base[0], other[0]) {
			t.Errorf("another %s, and the same augmentation", name)
		}
	}
	if other := load(t, newLoader(t, a, 2).Images, newBatch()); slices.Equal(base[0], other[0]) {
		t.Error("another seed, and the same augmentation")
	}
}

func TestIDsAreCut(t *testing.T) {
	ids := newLoader(t, samples.Augmentation{MinScale: 1, Workers: 1}, 1).IDs(newBatch())
	if want := [][]int32{{2, 5, 3}, {2, 1, 5, 3}}; !slices.EqualFunc(ids, want, slices.Equal) {
		t.Errorf("token ids %v, want %v", ids, want)
	}
}

func TestAMissingImageIsNamed(t *testing.T) {
	b := newBatch()
	b.Samples[1].ImageID = schemas.ImageID{9}
	_, err := newLoader(t, samples.Augmentation{MinScale: 1, Workers: 1}, 1).Images(context.Background(), b)
	if err == nil || !strings.Contains(err.Error(), "of sample 1: no such picture") {
		t.Errorf("error %v", err)
	}
}

func TestAugmentationIsChecked(t *testing.T) {
	err := samples.Augmentation{MinScale: 2, Flip: -1, Color: 3}.Validate()
	for _, want := range []string{"AUGMENT_MIN_SCALE is 2", "AUGMENT_FLIP is -1", "AUGMENT_COLOR is 3", "IMAGE_WORKERS is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
