package repack

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// made is the result for an image.
type made struct {
	data    []byte // of the copy
	outcome string
	err     error // why there is no copy
}

// inOrder makes copies, several at once, and hands them on in the order of the pictures.
func (r *Repacker) inOrder(ctx context.Context, list []picture, then func(picture, made) error) error {
	var working sync.WaitGroup
	defer working.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan chan made, r.o.Workers)
	working.Go(func() {
		for _, p := range list {
			one := make(chan made, 1)
			select {
			case <-ctx.Done():
				return
			case results <- one:
			}
			select {
			case <-ctx.Done():
				return
			case r.slots <- struct{}{}:
			}
			working.Go(func() {
				defer func() { <-r.slots }()
				one <- r.make(ctx, p)
			})
		}
	})
	for _, p := range list {
		var m made
		select {
		case <-ctx.Done():
			return ctx.Err()
		case one := <-results:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case m = <-one:
			}
		}
		if err := ctx.Err(); err != nil {
			return err // the image's result may come from that
		}
		if err := then(p, m); err != nil {
			return err
		}
	}
	return nil
}

// make reads a picture, and makes its copy.
func (r *Repacker) make(ctx context.Context, p picture) made {
	if r.gone(p.id) {
		return made{outcome: schemas.MaskForgotten, err: fmt.Errorf("image %s: %w", p.id, shard.ErrForgotten)}
	}
	var encoded []byte
	var err error
	for _, ref := range p.refs {
		if encoded, err = r.fetch(ctx, ref, p.id); err == nil {
			break
		}
	}
	var m made
	if err == nil {
		if m.data, m.outcome, err = Small(encoded, r.o.Side); err != nil {
			err = fmt.Errorf("image %s: %w", p.id, err)
		}
	}
	if err == nil {
		return m
	}
	if m.outcome = shard.MaskReason(err); m.outcome == "" {
		m.outcome = Unreachable
	}
	m.err = err
	return m
}

// readTries bounds the attempts at an image that a store does not return.
const readTries = 6

// fetch reads an image, and retries transient faults of the store.
func (r *Repacker) fetch(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	pause := firstPause
	for try := 1; ; try++ {
		encoded, err := r.source.ReadRange(ctx, ref, id)
		if err == nil || shard.Permanent(err) || try == readTries {
			return encoded, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// quality is the quality of written JPEGs.
const quality = 90

// Small returns an image as a JPEG whose shorter side has at most side pixels. A JPEG that is no larger is returned
// unchanged, and the outcome says so. Errors are those of package imaging.
func Small(encoded []byte, side int) (data []byte, outcome string, err error) {
	h, err := imaging.ReadHeader(encoded)
	if err != nil {
		return nil, "", err
	}
	padded := int64(len(encoded)) > 3*int64(h.Width)*int64(h.Height) // with more bytes than its pixels have
	if h.Format == "jpeg" && min(h.Width, h.Height) <= side && !padded {
		return encoded, Copied, imaging.Check(encoded)
	}
	im, err := imaging.DecodeShrunk(encoded, side)
	if err != nil {
		return nil, "", err
	}
	if short := min(im.W, im.H); short > side {
		im = im.Resize(max(1, (im.W*side+short/2)/short), max(1, (im.H*side+short/2)/short))
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, opaque(im), &jpeg.Options{Quality: quality}); err != nil {
		return nil, "", fmt.Errorf("encoding %d x %d pixels: %w: %w", im.W, im.H, imaging.ErrTooLarge, err)
	}
	return out.Bytes(), Shrunk, nil
}

// opaque returns the pixels in the form that package image/jpeg encodes fast.
func opaque(im *imaging.Image) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, im.W, im.H))
	for from, to := 0, 0; from < len(im.Pix); from, to = from+3, to+4 {
		px := out.Pix[to : to+4 : to+4]
		px[0], px[1], px[2], px[3] = im.Pix[from], im.Pix[from+1], im.Pix[from+2], 255
	}
	return out
}
