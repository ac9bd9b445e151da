package shard

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// square is a PNG of side x side pixels, one colour for each n.
func square(t testing.TB, side, n int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		m.Set(i%side, i/side, color.RGBA{byte(n), byte(n), byte(n), 255})
	}
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.Bytes()
}

// imagesOver serves encoded images by their ids, calling before each read.
func imagesOver(o ImagesOptions, before func(context.Context) error, encoded ...[]byte) *Images {
	byID := map[schemas.ImageID][]byte{}
	for _, e := range encoded {
		byID[schemas.NewImageID(e)] = e
	}
	c := NewImages(&Bucket{}, o)
	c.read = func(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
		if ref.URI == "broken" {
			return nil, ErrMissing
		}
		if err := before(ctx); err != nil {
			return nil, err
		}
		return byID[id], nil
	}
	return c
}

func TestImagesKeepsTheLatestUsed(t *testing.T) {
	var encoded [][]byte
	for n := range 4 {
		encoded = append(encoded, square(t, 10, n))
	}
	reads := 0
	c := imagesOver(ImagesOptions{MaxBytes: 3 * 300}, func(context.Context) error { reads++; return nil }, encoded...)
	get := func(n int) {
		t.Helper()
		im, err := c.Get(context.Background(), schemas.ImageRef{}, schemas.NewImageID(encoded[n]))
		if err != nil || im.W != 10 || im.Pix[0] != byte(n) {
			t.Fatalf("image %d: %v, %v", n, im, err)
		}
	}
	for _, step := range []struct{ n, reads int }{
		{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}, // 1 is the oldest now and has to go
		{0, 4}, {2, 4}, {3, 4}, {1, 5}, // then 0
		{2, 5}, {3, 5}, {0, 6},
	} {
		get(step.n)
		if reads != step.reads {
			t.Fatalf("after image %d: %d reads, want %d", step.n, reads, step.reads)
		}
	}
	if s := c.Stats(); s != (ImagesStats{Hits: 6, Misses: 6, Images: 3, Bytes: 900}) {
		t.Errorf("stats %+v", s)
	}
}

func TestImagesDoesNotKeepWhatIsTooLarge(t *testing.T) {
	big := square(t, 20, 1)
	c := imagesOver(ImagesOptions{MaxBytes: 1199}, func(context.Context) error { return nil }, big)
	for range 2 {
		must.Get(c.Get(context.Background(), schemas.ImageRef{}, schemas.NewImageID(big)))(t)
	}
	if s := c.Stats(); s.Images != 0 || s.Bytes != 0 || s.Misses != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestImagesShrinksAlike(t *testing.T) {
	big := square(t, 60, 9)
	for _, keep := range []int64{0, 1 << 20} {
		c := imagesOver(ImagesOptions{MaxBytes: keep, MinSide: 20}, func(context.Context) error { return nil }, big)
		for range 2 {
			im, err := c.Get(context.Background(), schemas.ImageRef{}, schemas.NewImageID(big))
			if err != nil || im.W != 20 || im.Pix[0] != 9 {
				t.Fatalf("keeping %d bytes: %v, %v", keep, im, err)
			}
		}
	}
}

// Two models share an image that their sizes reduce alike; where they do not, each has the pixels of a cache of its
// own.
func TestViewsShareImages(t *testing.T) {
	big := noisy(t, 200, 130)
	id := schemas.NewImageID(big)
	get := func(c *Images) *imaging.Image {
		t.Helper()
		im := must.Get(c.Get(context.Background(), schemas.ImageRef{}, id))(t)
		return im
	}
	nothing := func(context.Context) error { return nil }
	shared := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, nothing, big)
	for _, tt := range []struct {
		input   int // 130 pixels are reduced to no less than twice of it
		side    int
		decodes int64
	}{
		{16, 33, 1}, {32, 65, 2}, {16, 33, 2}, {30, 65, 2}, {33, 130, 3}, {100, 130, 3}, {21, 44, 4}, {32, 65, 4},
	} {
		im := get(shared.ForInput(tt.input))
		if alone := get(imagesOver(ImagesOptions{MinSide: 2 * tt.input}, nothing, big)); !slices.Equal(im.Pix, alone.Pix) || im.W != alone.W {
			t.Errorf("for an input of %d: not the pixels of a cache of its own", tt.input)
		}
		if got := shared.Stats().Misses; im.H != tt.side || got != tt.decodes {
			t.Errorf("for an input of %d: %d pixels high after %d decodes, want %d and %d", tt.input, im.H, got, tt.side, tt.decodes)
		}
	}
	if s := shared.Stats(); s.Images != 4 || s.Bytes != 3*(50*33+100*65+200*130+67*44) {
		t.Errorf("stats %+v", s)
	}
}

// All sizes of an image leave together, and are counted out.
func TestSizesLeaveTogether(t *testing.T) {
	first, second := square(t, 40, 1), square(t, 40, 2)
	c := imagesOver(ImagesOptions{MaxBytes: 3 * (1600 + 400)}, func(context.Context) error { return nil }, first, second)
	for _, step := range []struct {
		encoded []byte
		input   int
		want    ImagesStats
	}{
		{first, 20, ImagesStats{Misses: 1, Images: 1, Bytes: 4800}},
		{first, 10, ImagesStats{Misses: 2, Images: 2, Bytes: 6000}},
		{second, 10, ImagesStats{Misses: 3, Images: 1, Bytes: 1200}},
		{second, 8, ImagesStats{Hits: 1, Misses: 3, Images: 1, Bytes: 1200}},
	} {
		must.Get(c.ForInput(step.input).Get(context.Background(), schemas.ImageRef{}, schemas.NewImageID(step.encoded)))(t)
		if got := c.Stats(); got != step.want {
			t.Errorf("stats %+v, want %+v", got, step.want)
		}
	}
}

// noisy is a PNG of w x h pixels, all different.
func noisy(t testing.TB, w, h int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, color.RGBA{byte(i), byte(i * 7 / 5), byte(i >> 8), 255})
	}
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.Bytes()
}

// TestImagesReadsOnceForAll asks from many goroutines while the first read is held up. Nothing is kept, so that only
// the read under way can be shared.
func TestImagesReadsOnceForAll(t *testing.T) {
	e := square(t, 10, 5)
	id := schemas.NewImageID(e)
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		proceed := make(chan struct{})
		c := imagesOver(ImagesOptions{}, func(context.Context) error { reads++; <-proceed; return nil }, e)
		results := make([]*imaging.Image, 20)
		for n := range results {
			go func() {
				im, err := c.Get(context.Background(), schemas.ImageRef{}, id)
				must.Check(t, err)
				results[n] = im
			}()
		}
		synctest.Wait() // all wait, the first for the read, the others for the first
		if _, err := c.Get(context.Background(), schemas.ImageRef{URI: "broken"}, id); !errors.Is(err, ErrMissing) {
			t.Errorf("a broken reference to the same image: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := c.Get(ctx, schemas.ImageRef{}, id); !errors.Is(err, context.Canceled) {
			t.Errorf("one who was called off: %v", err)
		}
		close(proceed)
		synctest.Wait()
		for n, im := range results {
			if im == nil || im != results[0] {
				t.Errorf("asker %d got %p, the first %p", n, im, results[0])
			}
		}
		if reads != 1 {
			t.Errorf("%d reads", reads)
		}
	})
}

// TestImagesSurvivesACancelledLeader lets the one who reads be called off while others wait.
func TestImagesSurvivesACancelledLeader(t *testing.T) {
	e := square(t, 10, 5)
	id := schemas.NewImageID(e)
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		var answers atomic.Int32
		c := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, func(ctx context.Context) error {
			if reads++; reads == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, e)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			if _, err := c.Get(ctx, schemas.ImageRef{}, id); !errors.Is(err, context.Canceled) {
				t.Errorf("the leader: %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if im, err := c.Get(context.Background(), schemas.ImageRef{}, id); err != nil || im == nil {
					t.Errorf("who waited: %v, %v", im, err)
				}
				answers.Add(1)
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if reads != 2 || answers.Load() != 3 {
			t.Errorf("%d reads and %d answers, want 2 and 3", reads, answers.Load())
		}
	})
}

func TestImagesErrors(t *testing.T) {
	text, cut := []byte("<html>"), square(t, 10, 1)[:60]
	c := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, func(context.Context) error { return nil }, text, cut)
	for _, e := range [][]byte{text, cut} {
		if _, err := c.Get(context.Background(), schemas.ImageRef{}, schemas.NewImageID(e)); !errors.Is(err, imaging.ErrNotImage) || !Permanent(err) {
			t.Errorf("%q: %v", e, err)
		}
	}
}

// TestImagesVerifiesEveryReference asks for a kept image by references that are broken: another pair's good reference
// must not vouch for them.
func TestImagesVerifiesEveryReference(t *testing.T) {
	e := square(t, 10, 5)
	id := schemas.NewImageID(e)
	c := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, func(context.Context) error { return nil }, e)
	good := schemas.ImageRef{URI: "good", Offset: 512, Size: 100}
	for range 2 {
		must.Get(c.Get(t.Context(), good, id))(t)
		if _, err := c.Get(t.Context(), schemas.ImageRef{URI: "broken", Offset: 512, Size: 100}, id); !errors.Is(err, ErrMissing) {
			t.Errorf("a broken reference to a kept image: %v", err)
		}
	}
	for name, ref := range map[string]schemas.ImageRef{
		"object": {URI: "elsewhere", Offset: 512, Size: 100}, "offset": {URI: "good", Offset: 1024, Size: 100}, "size": {URI: "good", Offset: 512, Size: 99},
	} {
		before := c.Stats().Misses
		if _, err := c.Get(t.Context(), ref, id); err != nil || c.Stats().Misses != before+1 {
			t.Errorf("another %s was taken for the kept reference: error %v", name, err)
		}
	}
}

// TestImagesRemembersWhatIsNoImage counts reads: a crawl may have thousands of captions for one file that costs much to
// refuse.
func TestImagesRemembersWhatIsNoImage(t *testing.T) {
	cut := square(t, 10, 1)[:60]
	id := schemas.NewImageID(cut)
	reads := 0
	c := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, func(context.Context) error { reads++; return nil }, cut)
	var first error
	for range 3 {
		_, err := c.Get(t.Context(), schemas.ImageRef{URI: "cut"}, id)
		if !errors.Is(err, imaging.ErrNotImage) || first != nil && err.Error() != first.Error() {
			t.Fatalf("error %v, first %v", err, first)
		}
		first = err
	}
	if reads != 1 {
		t.Errorf("%d reads of a file that is no image", reads)
	}
	if s := c.Stats(); s.Images != 0 || s.Bytes == 0 {
		t.Errorf("stats %+v: an error is no image, but takes memory", s)
	}
	for range 2 {
		if _, err := c.Get(t.Context(), schemas.ImageRef{URI: "broken"}, id); !errors.Is(err, ErrMissing) {
			t.Errorf("error %v", err)
		}
	}
	if s := c.Stats(); s.Misses != 3 {
		t.Errorf("%d misses: an object that is missing now may come back, and has to be looked for again", s.Misses)
	}
}

func TestImagesRefusesWhatIsTakenBack(t *testing.T) {
	encoded := [][]byte{square(t, 10, 1), square(t, 10, 2)}
	c := imagesOver(ImagesOptions{MaxBytes: 1 << 20}, func(context.Context) error { return nil }, encoded...)
	gone := schemas.NewImageID(encoded[0])
	view := c.ForInput(4)
	must.Get(view.Get(t.Context(), schemas.ImageRef{}, gone))(t)
	c.Forget(func(id schemas.ImageID) bool { return id == gone })
	if _, err := view.Get(t.Context(), schemas.ImageRef{}, gone); MaskReason(err) != schemas.MaskForgotten {
		t.Errorf("an image that is kept gives %v", err)
	}
	if _, err := view.Get(t.Context(), schemas.ImageRef{}, schemas.NewImageID(encoded[1])); err != nil {
		t.Error(err)
	}
}
