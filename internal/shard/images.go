package shard

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// ImagesOptions bounds what [Images] holds.
type ImagesOptions struct {
	// MaxBytes bounds the pixels that are kept.
	MaxBytes int64
	// MinSide shrinks images on the way in, by box averages over whole factors, to a shorter side of no less than
	// this; 0 keeps them as they are. Twice the model's input leaves room for crops. Every image is shrunk alike,
	// whether it was in the cache or not.
	MinSide int
	// MaxWorkBytes bounds the memory of the decoders that run at the same time; an image that needs more runs alone.
	// 0: 1 GiB.
	MaxWorkBytes int64
}

// ImagesStats counts what [Images] did.
type ImagesStats struct {
	Hits, Misses int64
	Images       int
	Bytes        int64 // of the pixels that are kept
}

// Images reads and decodes images and keeps the latest used. Images that it returns are shared and must not be
// changed. An image that several ask for at the same time is read once.
type Images struct {
	read func(context.Context, schemas.ImageRef, schemas.ImageID) ([]byte, error)
	o    ImagesOptions
	work *semaphore.Weighted

	mu      sync.Mutex
	kept    map[schemas.ImageID]*list.Element // of keptImage
	used    *list.List                        // the latest in front
	flights map[flightKey]*flight
	stats   ImagesStats
}

type keptImage struct {
	id schemas.ImageID
	im *imaging.Image
}

// flightKey has the reference too: where one reference to an image is broken another may be good.
type flightKey struct {
	id  schemas.ImageID
	ref schemas.ImageRef
}

// flight is a read under way; the rest is set when done is closed.
type flight struct {
	done chan struct{}
	im   *imaging.Image
	err  error
}

// NewImages keeps images of a bucket.
func NewImages(b *Bucket, o ImagesOptions) *Images {
	if o.MaxWorkBytes <= 0 {
		o.MaxWorkBytes = 1 << 30
	}
	return &Images{
		read: b.ReadRange, o: o, work: semaphore.NewWeighted(o.MaxWorkBytes),
		kept: map[schemas.ImageID]*list.Element{}, used: list.New(), flights: map[flightKey]*flight{},
	}
}

// Get returns the decoded image of a reference. See [Permanent] for its errors; no error is kept.
func (c *Images) Get(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	key := flightKey{id, ref}
	for {
		c.mu.Lock()
		if at := c.kept[id]; at != nil {
			c.used.MoveToFront(at)
			c.stats.Hits++
			c.mu.Unlock()
			return at.Value.(keptImage).im, nil
		}
		f := c.flights[key]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			c.flights[key] = f
			c.stats.Misses++
			c.mu.Unlock()
			c.lead(ctx, key, f)
			return f.im, f.err
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		// Whoever led may have been called off, which is no answer for those who waited: they try again.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.im, f.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// lead reads the image for all who wait for the flight.
func (c *Images) lead(ctx context.Context, key flightKey, f *flight) {
	f.im, f.err = c.load(ctx, key.ref, key.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	if f.err == nil {
		c.keep(key.id, f.im)
	}
	close(f.done)
}

func (c *Images) load(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error) {
	encoded, err := c.read(ctx, ref, id)
	if err != nil {
		return nil, err
	}
	h, err := imaging.ReadHeader(encoded)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", id, err)
	}
	need := min(h.WorkBytes, c.o.MaxWorkBytes)
	if err := c.work.Acquire(ctx, need); err != nil {
		return nil, err
	}
	defer c.work.Release(need)
	im, err := imaging.DecodeShrunk(encoded, c.o.MinSide)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", id, err)
	}
	return im, nil
}

// keep adds an image and drops the least recently used beyond the bound; the caller holds the lock. The image may be
// there already, when two references to it were read at the same time.
func (c *Images) keep(id schemas.ImageID, im *imaging.Image) {
	if c.kept[id] != nil || im.Bytes() > c.o.MaxBytes {
		return
	}
	c.kept[id] = c.used.PushFront(keptImage{id, im})
	c.stats.Bytes += im.Bytes()
	for c.stats.Bytes > c.o.MaxBytes {
		oldest := c.used.Remove(c.used.Back()).(keptImage)
		delete(c.kept, oldest.id)
		c.stats.Bytes -= oldest.im.Bytes()
	}
}

// Stats returns the counts so far.
func (c *Images) Stats() ImagesStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Images = len(c.kept)
	return s
}
