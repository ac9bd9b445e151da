package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"math"
	"net/http"
	"strconv"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

const (
	thumbBytes  = 48 << 20 // of encoded thumbnails that are kept
	thumbsAtOne = 4        // decoded at a time
)

// thumbSides are the sizes of the longer side that pages ask for.
var thumbSides = map[string]int{"s": 160, "m": 320, "l": 640}

// thumbs makes small JPEGs of images and keeps the latest.
type thumbs struct {
	images *shard.Images
	gone   func(schemas.ImageID) bool
	work   *semaphore.Weighted

	mu   sync.Mutex
	kept *simplelru.LRU[thumbKey, []byte]
	size int
}

type thumbKey struct {
	id   schemas.ImageID
	ref  schemas.ImageRef
	side int
}

func newThumbs(images *shard.Images, gone func(schemas.ImageID) bool) *thumbs {
	t := &thumbs{images: images, gone: gone, work: semaphore.NewWeighted(thumbsAtOne)}
	t.kept, _ = simplelru.NewLRU(math.MaxInt, func(_ thumbKey, b []byte) { t.size -= len(b) }) // refuses only sizes below 1
	return t
}

var errNoImages = errors.New("BUCKET_ROOTS is empty, so the console reads no images")

func (t *thumbs) get(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID, side int) ([]byte, error) {
	if t.gone(id) {
		return nil, shard.ErrForgotten
	}
	key := thumbKey{id, ref, side}
	t.mu.Lock()
	b, ok := t.kept.Get(key)
	t.mu.Unlock()
	if ok {
		return b, nil
	}
	if t.images == nil {
		return nil, errNoImages
	}
	if err := t.work.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer t.work.Release(1)
	im, err := t.images.ForInput(side/2).Get(ctx, ref, id)
	if err != nil {
		return nil, err
	}
	if b, err = thumbnail(im, side); err != nil {
		return nil, err
	}
	t.keep(key, b)
	return b, nil
}

// keep keeps a thumbnail, and drops those that were requested longest ago when all take too much.
func (t *thumbs) keep(key thumbKey, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.kept.Contains(key) {
		t.kept.Add(key, b)
		t.size += len(b)
	}
	for t.size > thumbBytes {
		t.kept.RemoveOldest()
	}
}

// thumbnail encodes an image anew, with its longer side shortened to side.
func thumbnail(im *imaging.Image, side int) ([]byte, error) {
	if longer := max(im.W, im.H); longer > side {
		im = im.Resize(max(1, im.W*side/longer), max(1, im.H*side/longer))
	}
	out := image.NewRGBA(image.Rect(0, 0, im.W, im.H))
	for i, j := 0, 0; i < len(im.Pix); i, j = i+3, j+4 {
		out.Pix[j], out.Pix[j+1], out.Pix[j+2], out.Pix[j+3] = im.Pix[i], im.Pix[i+1], im.Pix[i+2], 0xff
	}
	var b bytes.Buffer
	err := jpeg.Encode(&b, out, &jpeg.Options{Quality: 82})
	return b.Bytes(), err
}

// thumb serves the thumbnail of a pair's image. The page asks by the id of the pair, so only references of the log are
// ever read.
func (s *Server) thumb(w http.ResponseWriter, r *http.Request) error {
	p, err := s.pairAt(r, r.PathValue("id"))
	if _, bad := errors.AsType[badRequest](err); bad {
		return err
	}
	var b []byte
	if err == nil {
		b, err = s.thumbs.get(r.Context(), p.Image, p.ImageID, sideOf(r))
	}
	return sendThumb(w, r, b, err)
}

func sideOf(r *http.Request) int {
	return cmp.Or(thumbSides[r.FormValue("s")], thumbSides["m"])
}

// sendThumb serves a thumbnail, or a drawing when there is none.
func sendThumb(w http.ResponseWriter, r *http.Request, b []byte, err error) error {
	if err != nil {
		return noImage(w, r, err)
	}
	w.Header().Set("Content-Type", "image/jpeg")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Cache-Control", "private, max-age=86400")
	_, _ = w.Write(b) // the client is gone
	return nil
}

// noImage serves a drawing in the place of an image that cannot be read. Its text is the console's own.
func noImage(w http.ResponseWriter, r *http.Request, err error) error {
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	why := "not readable now"
	switch reason := shard.MaskReason(err); {
	case errors.Is(err, errNoImages):
		why = "no BUCKET_ROOTS"
	case reason != "":
		why = reason
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 120" width="160" height="120"><rect width="160" height="120" fill="#8884"/>` +
		`<path d="M50 40l60 40m0-40l-60 40" stroke="#888" stroke-width="3"/><text x="80" y="108" font-family="sans-serif" font-size="12" fill="#777" text-anchor="middle">` + why + `</text></svg>`))
	return nil
}
