package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// album has pictures of one colour each, by id.
type album map[schemas.ImageID]byte

func (a album) Get(_ context.Context, _ schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	if id[0] == gone {
		return nil, fmt.Errorf("reading image %s: %w", id, shard.ErrMissing)
	}
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

// gone is the first byte of the ids of images that are gone for ever.
const gone = 99

const size = 4

var vocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog"}

func words(t *testing.T) *token.WordPiece {
	t.Helper()
	w := must.Get(token.NewWordPiece(vocab))(t)
	return w
}

func newLoader(t *testing.T, a dataset.Augmentation, seed uint64) *dataset.Loader {
	t.Helper()
	return dataset.NewLoader(album{{1}: 10, {2}: 90, {3}: 170}, size, 4, words(t), seed, a)
}

func newBatch() *schemas.Batch {
	return &schemas.Batch{Samples: []schemas.Sample{
		{ImageID: schemas.ImageID{1}, Text: "cat"},
		{ImageID: schemas.ImageID{2}, Text: "a cat, a dog and a cat", Positive: &schemas.Positive{ImageID: schemas.ImageID{3}}},
	}}
}

// loading is Loader.Images or Loader.Positives.
type loading func(context.Context, *schemas.Batch, []schemas.Mask) ([]float32, []schemas.Mask, error)

func load(t *testing.T, f loading, b *schemas.Batch) [][]float32 {
	t.Helper()
	pixels, lost, err := f(context.Background(), b, nil)
	if err != nil || lost != nil {
		t.Fatal(lost, err)
	}
	return slices.Collect(slices.Chunk(pixels, 3*size*size))
}

// brightness returns about what a picture's first channel shows.
func brightness(pixels []float32) float64 {
	sum := 0.0
	for _, v := range pixels[:size*size] {
		sum += float64(v*imaging.CLIPStd[0]+imaging.CLIPMean[0]) * 255 / (size * size)
	}
	return sum
}

// GPN-S section 3.3.2: a sample without an equivalent image gets another augmentation of its own.
func TestPositives(t *testing.T) {
	l := newLoader(t, dataset.Augmentation{MinScale: 1, Color: 0.2, Workers: 2}, 1)
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
	a := dataset.Augmentation{MinScale: 0.5, Flip: 0.5, Color: 0.2, Workers: 2}
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
	ids := newLoader(t, dataset.Augmentation{MinScale: 1, Workers: 1}, 1).IDs(newBatch())
	if want := [][]int32{{2, 5, 3}, {2, 1, 5, 3}}; !slices.EqualFunc(ids, want, slices.Equal) {
		t.Errorf("token ids %v, want %v", ids, want)
	}
}

func TestAMissingImageIsNamed(t *testing.T) {
	b := newBatch()
	b.Samples[1].ImageID = schemas.ImageID{9}
	_, _, err := newLoader(t, dataset.Augmentation{MinScale: 1, Workers: 1}, 1).Images(context.Background(), b, nil)
	if err == nil || !strings.Contains(err.Error(), "of sample 1: no such picture") {
		t.Errorf("error %v", err)
	}
}

// TestImagesThatAreGoneAreMasked shows that a lost image costs its own row, and moves no other by a bit.
func TestImagesThatAreGoneAreMasked(t *testing.T) {
	l := newLoader(t, dataset.Augmentation{MinScale: 0.5, Flip: 0.5, Color: 0.2, Workers: 2}, 1)
	whole := func() *schemas.Batch {
		b := newBatch()
		b.Samples = append(b.Samples, b.Samples[1])
		return b
	}
	black := make([]float32, 3*size*size)
	sample := schemas.Mask{Sample: 1, Reason: schemas.MaskMissing}
	positive := schemas.Mask{Sample: 1, Positive: true, Reason: schemas.MaskMissing}
	spoil := map[string]struct {
		change           func(*schemas.Batch)
		images, positive []schemas.Mask // found
		own              bool           // its own image replaces the positive
	}{
		"image":    {func(b *schemas.Batch) { b.Samples[1].ImageID[0] = gone }, []schemas.Mask{sample}, nil, false},
		"positive": {func(b *schemas.Batch) { b.Samples[1].Positive = &schemas.Positive{ImageID: schemas.ImageID{gone}} }, nil, []schemas.Mask{positive}, true},
		"both": {func(b *schemas.Batch) {
			b.Samples[1].ImageID[0], b.Samples[1].Positive = gone, &schemas.Positive{ImageID: schemas.ImageID{gone}}
		}, []schemas.Mask{sample}, []schemas.Mask{sample, positive}, false},
	}
	for name, c := range spoil {
		t.Run(name, func(t *testing.T) {
			b := whole()
			c.change(b)
			for _, way := range []struct {
				name  string
				load  loading
				found []schemas.Mask
			}{{"images", l.Images, c.images}, {"positives", l.Positives, c.positive}} {
				want := load(t, way.load, whole())
				if c.own && way.name == "positives" {
					own := whole()
					own.Samples[1].Positive = nil
					want = load(t, way.load, own)
				} else if len(way.found) > 0 {
					want[1] = black
				}
				for _, known := range [][]schemas.Mask{nil, way.found} {
					pixels, lost, err := way.load(t.Context(), b, known)
					if err != nil || !slices.EqualFunc(slices.Collect(slices.Chunk(pixels, 3*size*size)), want, slices.Equal) {
						t.Errorf("%s, knowing %v: other pixels, or %v", way.name, known, err)
					}
					if known == nil && !slices.Equal(lost, way.found) || known != nil && lost != nil {
						t.Errorf("%s, knowing %v: found %v, want %v", way.name, known, lost, way.found)
					}
				}
			}
		})
	}
}

func TestAugmentationIsChecked(t *testing.T) {
	err := dataset.Augmentation{MinScale: 2, Flip: -1, Color: 3, Workers: -1}.Validate()
	for _, want := range []string{"MinScale is 2", "Flip is -1", "Color is 3", "Workers is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// A setting that changes the pixels of a sample also changes what Drawn returns.
func TestDrawnNamesEverySetting(t *testing.T) {
	said := func(seed uint64, a dataset.Augmentation) string {
		return dataset.NewLoader(album{}, size, 8, words(t), seed, a).Drawn()
	}
	base := dataset.Augmentation{MinScale: 0.5, Flip: 0.25, Color: 0.125, Workers: 2}
	if said(1, base) == said(2, base) {
		t.Error("two seeds say the same")
	}
	changed := base
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch f := v.Field(i); f.Kind() {
			case reflect.Struct:
				change(f)
				continue
			case reflect.Float64:
				f.SetFloat(f.Float() + 0.0625)
			case reflect.Int:
				f.SetInt(f.Int() + 1)
			case reflect.Bool:
				f.SetBool(!f.Bool())
			default:
				t.Fatalf("%s is a %s: change it here", name, f.Kind())
			}
			if same := said(1, changed) == said(1, base); same != (name == "Workers") {
				t.Errorf("another %s is said: %t", name, !same)
			}
			changed = base
		}
	}
	change(reflect.ValueOf(&changed).Elem())
}

func TestRandAugmentReadsItsNumbers(t *testing.T) {
	for text, want := range map[string]dataset.RandAugment{"2,7": {Ops: 2, Level: 7}, "3, 10": {Ops: 3, Level: 10}, "0": {}, "0,5": {Level: 5}} {
		var got dataset.RandAugment
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "2,", "a,7", "2,x", "0,x", "2,7,1"} {
		var got dataset.RandAugment
		if err := got.UnmarshalText([]byte(text)); err == nil || got != (dataset.RandAugment{}) {
			t.Errorf("%q: %v, %v, want an error", text, got, err)
		}
	}
}
