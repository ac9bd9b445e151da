package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/pairstream/pairstream/internal/base/cputime"
	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// ImagesOptions bounds what [Images] holds.
type ImagesOptions struct {
	// MaxBytes bounds the pixels that are kept.
	MaxBytes int64
	// MinSide shrinks images as they are read, by box averages over whole factors, to a shorter side of at least this;
	// 0 keeps their size. Cached and newly read images are shrunk in the same way.
	MinSide int
}

// ImagesStats counts what [Images] and all views of it did.
type ImagesStats struct {
	Hits, Misses int64
	Images       int
	Bytes        int64 // of the pixels that are kept
}

// Images reads and decodes images and keeps the latest used. Images that it returns are shared and must not be
// changed. An image that several ask for at the same time is read once.
//
// Models of other input sizes take views of it ([Images.ForInput], [Images.Reduced]). Views share one
// cache. An image is decoded again only where two sizes reduce it by other factors.
type Images struct {
	*cache
	want imaging.Want
}

// ForInput returns a view for a model whose input has side pixels. Images keep twice that, which leaves room for crops.
func (c *Images) ForInput(side int) *Images { return &Images{c.cache, imaging.Want{MinSide: 2 * side}} }

// Reduced returns a view whose images are as small as want lets them become.
func (c *Images) Reduced(want imaging.Want) *Images { return &Images{c.cache, want} }

// cache is shared by the views.
type cache struct {
	read    func(context.Context, schemas.ImageRef, schemas.ImageID) ([]byte, error)
	o       ImagesOptions
	flights singleflight.Group
	gone    atomic.Pointer[func(schemas.ImageID) bool] // nil: nothing is

	mu    sync.Mutex
	kept  *simplelru.LRU[imageKey, []answer]
	stats ImagesStats
}

// imageKey has the reference beside the id: one good reference to an image says nothing about another.
type imageKey struct {
	id  schemas.ImageID
	ref schemas.ImageRef
}

func (k imageKey) String() string {
	return fmt.Sprintf("%s at %d+%d of %s", k.id, k.ref.Offset, k.ref.Size, k.ref.URI)
}

// answer is the permanent result for a reference: an image, or the reason why its bytes are none.
type answer struct {
	want imaging.Want
	im   *imaging.Image
	how  imaging.Reduction
	err  error
}

// serves reports whether the answer fits another request.
func (a answer) serves(want imaging.Want) bool {
	return a.want == want || a.err == nil && a.how.Serves(want)
}

// errorBytes is the size that a cached error counts for.
const errorBytes = 1 << 10

func (a answer) bytes() int64 {
	if a.err != nil {
		return errorBytes
	}
	return a.im.Bytes()
}

// Forget makes every view refuse the images that gone reports, with [ErrForgotten], cached or not.
func (c *cache) Forget(gone func(schemas.ImageID) bool) { c.gone.Store(&gone) }

// NewImages makes a cache of images of a bucket.
func NewImages(b *Bucket, o ImagesOptions) *Images {
	c := &cache{read: b.ReadRange, o: o}
	c.kept, _ = simplelru.NewLRU(math.MaxInt, c.dropped) // refuses only sizes below 1; the bound is in bytes
	return &Images{c, imaging.Want{MinSide: o.MinSide}}
}

// Get returns the decoded image of a reference. See [Permanent] for its errors. Errors of the bytes are cached, because
// they may be expensive to find. Errors of the bucket are not, because a missing object may come back.
func (c *Images) Get(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	im, _, err := c.GetReduced(ctx, ref, id)
	return im, err
}

// GetReduced is Get, and also returns how the picture was reduced.
func (c *Images) GetReduced(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, imaging.Reduction, error) {
	if gone := c.gone.Load(); gone != nil && (*gone)(id) {
		return nil, imaging.Reduction{}, fmt.Errorf("image %s: %w", id, ErrForgotten)
	}
	key := imageKey{id, ref}
	for {
		if a, ok := c.look(key, c.want); ok {
			return a.im, a.how, a.err
		}
		flight := c.flights.DoChan(fmt.Sprintf("%s for %v", key, c.want), func() (any, error) {
			a, err := c.load(ctx, key, c.want)
			return a, err
		})
		select {
		case <-ctx.Done():
			return nil, imaging.Reduction{}, ctx.Err()
		case done := <-flight:
			// The leader may have been cancelled, which is no answer for those who waited: they try again.
			if !isAny(done.Err, context.Canceled, context.DeadlineExceeded) {
				a, _ := done.Val.(answer)
				return a.im, a.how, done.Err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, imaging.Reduction{}, err
		}
	}
}

func (c *cache) look(key imageKey, want imaging.Want) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, _ := c.kept.Get(key)
	for _, a := range answers {
		if a.serves(want) {
			c.stats.Hits++
			return a, true
		}
	}
	return answer{}, false
}

// Decoding is the part of the processor time (package cputime) spent on decoding. The first of several waiters decodes
// for all.
const Decoding = "decode"

// load reads and decodes the image, and caches the result.
func (c *cache) load(ctx context.Context, key imageKey, want imaging.Want) (answer, error) {
	if a, ok := c.look(key, want); ok { // an earlier load has just ended
		return a, a.err
	}
	c.mu.Lock()
	c.stats.Misses++
	c.mu.Unlock()
	fetched := timing.Begin(ctx, timing.Fetch)
	encoded, err := c.read(ctx, key.ref, key.id)
	fetched()
	if err != nil {
		return answer{}, err
	}
	a := answer{want: want}
	decoded := timing.Begin(ctx, timing.Decode)
	cputime.Do(ctx, Decoding, func() { a.im, a.how, err = imaging.DecodeReduced(encoded, want) })
	decoded()
	if err != nil {
		a.err = fmt.Errorf("image %s: %w", key.id, err)
	}
	if err == nil || isAny(err, imaging.ErrNotImage, imaging.ErrTooLarge) {
		c.keep(key, a)
	}
	return a, a.err
}

// keep adds an answer and drops the least recently used beyond the bound.
func (c *cache) keep(key imageKey, a answer) {
	if a.bytes() > c.o.MaxBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	others, _ := c.kept.Peek(key)
	if slices.ContainsFunc(others, func(o answer) bool { return o.serves(a.want) }) {
		return // two sizes with the same reduction were requested at the same time
	}
	c.kept.Add(key, append(slices.Clip(others), a))
	c.stats.Bytes += a.bytes()
	if a.err == nil {
		c.stats.Images++
	}
	for c.stats.Bytes > c.o.MaxBytes {
		c.kept.RemoveOldest()
	}
}

// dropped subtracts the answers for a reference from the counts; the caller holds the lock.
func (c *cache) dropped(_ imageKey, answers []answer) {
	for _, a := range answers {
		c.stats.Bytes -= a.bytes()
		if a.err == nil {
			c.stats.Images--
		}
	}
}

// Stats returns the counts so far.
func (c *cache) Stats() ImagesStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
