package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// album holds white images, and the reasons why some cannot be had.
type album struct {
	mu    sync.Mutex
	bad   map[schemas.ImageID]error
	asked map[schemas.ImageID]int
}

func (a *album) Get(_ context.Context, _ schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[id]++
	if err := a.bad[id]; err != nil {
		return nil, fmt.Errorf("getting it: %w", err)
	}
	im := imaging.New(8, 8)
	for i := range im.Pix {
		im.Pix[i] = 255
	}
	return im, nil
}

const side = 4

func testInputs(t *testing.T, bad map[schemas.ImageID]error) (inputs, *album) {
	t.Helper()
	a := &album{bad: bad, asked: map[schemas.ImageID]int{}}
	words := must.Get(token.NewWordPiece([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}))(t)
	loader := dataset.NewLoader(a, side, 8, words, 1, dataset.Augmentation{MinScale: 1, Workers: 2})
	return inputs{
		loader: loader, logger: slog.New(slog.DiscardHandler), positives: true, second: true,
		send: func(in trainer.Input) (trainer.Input, error) { return in, nil },
	}, a
}

func imageNo(n int) schemas.ImageID { return schemas.NewImageID(fmt.Append(nil, n)) }

// fourSamples show images 0 to 3; the positive of sample 1 is image 7.
func fourSamples() *schemas.ScoredBatch {
	b := &schemas.ScoredBatch{}
	for i := range 4 {
		b.Samples = append(b.Samples, schemas.Sample{ImageID: imageNo(i), Text: "a"})
	}
	b.Samples[1].Positive = &schemas.Positive{ImageID: imageNo(7)}
	return b
}

// blackRows lists the samples whose pixels are all 0.
func blackRows(pixels []float32) (rows []int) {
	size := 3 * side * side
	for i := range len(pixels) / size {
		if !slices.ContainsFunc(pixels[i*size:(i+1)*size], func(v float32) bool { return v != 0 }) {
			rows = append(rows, i)
		}
	}
	return rows
}

// Whatever makes an image unusable for good masks its samples, with its reason. The others are as they were.
func TestGoneImagesAreMasked(t *testing.T) {
	whole, _ := testInputs(t, nil)
	want, err := whole.load(t.Context(), fourSamples(), nil)
	if err != nil || want.Masked != nil || blackRows(want.Pixels) != nil || len(want.Second) != len(want.Pixels) {
		t.Fatalf("masks %v, black %v (%v)", want.Masked, blackRows(want.Pixels), err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{shard.ErrMissing, "missing"},
		{shard.ErrTruncated, "missing"},
		{shard.ErrHashMismatch, "changed"},
		{shard.ErrForbidden, "forbidden"},
		{shard.ErrDenied, "forbidden"},
		{imaging.ErrNotImage, "unusable"},
		{imaging.ErrTooLarge, "unusable"},
	} {
		in, _ := testInputs(t, map[schemas.ImageID]error{imageNo(2): c.err})
		got := must.Get(in.load(t.Context(), fourSamples(), nil))(t)
		if mask := []schemas.Mask{{Sample: 2, Reason: c.want}}; !reflect.DeepEqual(got.Masked, mask) {
			t.Errorf("%v: masks %v, want %v", c.err, got.Masked, mask)
		}
		for name, pixels := range map[string][2][]float32{
			"pixels": {got.Pixels, want.Pixels}, "second": {got.Second, want.Second}, "positives": {got.Positives, want.Positives},
		} {
			if rows := blackRows(pixels[0]); !slices.Equal(rows, []int{2}) {
				t.Errorf("%v: samples %v are black in %s, want 2 alone", c.err, rows, name)
			}
			size := 3 * side * side
			if !slices.Equal(pixels[0][3*size:], pixels[1][3*size:]) {
				t.Errorf("%v: sample 3 moved in %s", c.err, name)
			}
		}
	}
}

// The sample's own image replaces a positive that is gone.
func TestGonePositivesAreReplaced(t *testing.T) {
	in, _ := testInputs(t, map[schemas.ImageID]error{imageNo(7): shard.ErrMissing})
	got := must.Get(in.load(t.Context(), fourSamples(), nil))(t)
	if want := []schemas.Mask{{Sample: 1, Positive: true, Reason: "missing"}}; !reflect.DeepEqual(got.Masked, want) {
		t.Errorf("masks %v, want %v", got.Masked, want)
	}
	if blackRows(got.Pixels) != nil || blackRows(got.Positives) != nil {
		t.Errorf("black images %v and positives %v", blackRows(got.Pixels), blackRows(got.Positives))
	}
}

// load does not even ask for images that a batch masks, or that were masked when the step was first made. So an image
// that is back changes nothing.
func TestKnownMasksAreKept(t *testing.T) {
	in, album := testInputs(t, nil)
	b := fourSamples()
	b.Masked = []schemas.Mask{{Sample: 0, Reason: "missing"}}
	got := must.Get(in.load(t.Context(), b, []schemas.Mask{{Sample: 0, Reason: "missing"}, {Sample: 3, Reason: "changed"}}))(t)
	if rows := blackRows(got.Pixels); !slices.Equal(rows, []int{0, 3}) || album.asked[imageNo(0)]+album.asked[imageNo(3)] != 0 {
		t.Errorf("samples %v are black, asked %v", rows, album.asked)
	}
	again, err := in.load(t.Context(), fourSamples(), nil) // the next batch knows nothing of this one
	if err != nil || again.Masked != nil || blackRows(again.Pixels) != nil {
		t.Errorf("the next batch: masks %v (%v)", again.Masked, err)
	}
}

// A fault of the bucket masks nothing: load waits until it is over.
func TestFaultsOfTheBucketMaskNothing(t *testing.T) {
	in, _ := testInputs(t, map[schemas.ImageID]error{imageNo(2): errors.New("connection refused")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := in.load(ctx, fourSamples(), nil); !errors.Is(err, context.Canceled) || got.Masked != nil {
		t.Errorf("masks %v, error %v", got.Masked, err)
	}
}

// Con-D's verdicts are about the images that it saw. A trainer that draws others is refused, and the error names both.
func TestOtherAugmentationIsRefused(t *testing.T) {
	in, _ := testInputs(t, nil)
	b := fourSamples()
	b.Drawn = in.loader.Drawn()
	if _, err := in.load(t.Context(), b, nil); err != nil {
		t.Errorf("the same images: %v", err)
	}
	b.Drawn = "seed 2, crop 1, flip 0, color 0"
	_, err := in.load(t.Context(), b, nil)
	if err == nil || !strings.Contains(err.Error(), b.Drawn) || !strings.Contains(err.Error(), in.loader.Drawn()) {
		t.Errorf("other images: %v", err)
	}
}
