// Package repack writes smaller copies of the images of a group into separate tars. Mini-batches then refer to the
// copies.
//
// It takes the chunks of a closed group, and the id and the reference of every member's image. It adds the positions of
// the copies to the chunks. A folder of the root holds the copies of one group:
//
//	ROOT/group-LANE-NUMBER-DIGEST/00000.tar    copies for eight chunks, in the order of their members
//	                             /00001.tar
//	IMAGE-COPY.jpg                             an entry: the hashes of the image and of the copy
//
// Guarantees:
//
//  1. The digest covers the members' images and the options. So a folder belongs to these images, whichever log
//     refers to it, and a replay finds the tars of the run that it repeats.
//  2. A tar appears whole, and once. Every process that finds it uses its copies, so an owner that died, a fenced
//     owner and a new one get the same positions. Leftovers of a crash have another name and are never read.
//  3. When [Repacker.Copy] returns, the tars are durable. Records that refer to them may be published then.
//  4. An image has one copy in a tar, even if several of the tar's members show it. An image that cannot be read or
//     decoded has none, and its members keep their references. That is decided once, because the tar lists its
//     images.
//  5. Memory is bounded by the images in work. A failing store is retried until ctx ends; an image, a few times.
//
// A copy is a JPEG. Its bytes are a function of the image and of the options, on machines with the same libjpeg-turbo.
// A Repacker is safe for concurrent use.
package repack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Source reads images; a [shard.Bucket] is one.
type Source interface {
	ReadRange(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error)
}

var _ Source = (*shard.Bucket)(nil)

// Store holds the tars by name.
type Store interface {
	// Write creates an object, which appears whole once write has returned. The error for an existing object wraps
	// [fs.ErrExist].
	Write(ctx context.Context, name string, write func(io.Writer) error) error
	// Open opens an object. The error for a missing object wraps [fs.ErrNotExist].
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

// Options set the destination and the size of copies.
type Options struct {
	Root    *url.URL // of the store, as references name it
	Side    int      // most pixels of a copy's shorter side
	Workers int      // images in work at once; changes no copy
}

// Group is a group whose images are to be copied.
type Group struct {
	ID     schemas.GroupID
	Chunks []*schemas.NeighborChunk
	Image  func(position int) (schemas.ImageID, schemas.ImageRef)
}

// Repacker makes the copies of the groups of a process.
type Repacker struct {
	source Source
	store  Store
	gone   func(schemas.ImageID) bool
	o      Options
	log    *slog.Logger
	slots  chan struct{} // one for each image in work
}

// New makes a repacker. gone reports forgotten images.
func New(source Source, store Store, gone func(schemas.ImageID) bool, o Options, log *slog.Logger) *Repacker {
	return &Repacker{source: source, store: store, gone: gone, o: o, log: log, slots: make(chan struct{}, o.Workers)}
}

// Outcomes of an image, besides the reasons of masks.
const (
	Shrunk      = "shrunk"      // it was made smaller
	Copied      = "copied"      // it is small enough, and was copied byte for byte
	Found       = "found"       // an earlier attempt had made its copy
	Lost        = "lost"        // an earlier attempt had made none
	Unreachable = "unreachable" // reading it failed repeatedly
)

// Counts counts images by outcome, and the bytes of the new copies.
type Counts struct {
	Images map[string]int
	Bytes  int64
}

// All returns the number of images.
func (c Counts) All() (n int) {
	for _, images := range c.Images {
		n += images
	}
	return n
}

// tarChunks is the number of chunks whose copies share a tar: about 250 MB of photographs.
const tarChunks = 8

// copyVersion changes whenever the same images and options would give other copies.
const copyVersion = 1

// Copy makes the copies of a group, and writes their positions into its chunks. After each tar it reports the outcomes
// of its images.
func (r *Repacker) Copy(ctx context.Context, g Group, tell func(Counts)) error {
	folder := r.folder(g)
	tar := 0
	for part := range slices.Chunk(g.Chunks, tarChunks) {
		name := fmt.Sprintf("%s/%05d.tar", folder, tar)
		copies, counts, err := r.tar(ctx, name, pictures(part, g.Image))
		if err != nil {
			return fmt.Errorf("copying the images of group %s: %w", g.ID, err)
		}
		tell(counts)
		for _, c := range part {
			for i := range c.Members() {
				id, _ := g.Image(int(c.Start) + i)
				if at, ok := copies[id]; ok {
					c.SetCopy(i, at)
				}
			}
		}
		tar++
	}
	return nil
}

// folder returns the name of a group's folder.
func (r *Repacker) folder(g Group) string {
	h := sha256.New()
	fmt.Fprintf(h, "copies %d, side %d\n", copyVersion, r.o.Side)
	for _, c := range g.Chunks {
		for i := range c.Members() {
			id, _ := g.Image(int(c.Start) + i)
			h.Write(id[:])
		}
	}
	return fmt.Sprintf("group-%05d-%08d-%x", g.ID.Lane, g.ID.Seq, h.Sum(nil)[:8])
}

// picture is an image, and its reference.
type picture struct {
	id   schemas.ImageID
	refs []schemas.ImageRef
}

// pictures returns the images of chunks, each once, in the order of their first members.
func pictures(chunks []*schemas.NeighborChunk, image func(int) (schemas.ImageID, schemas.ImageRef)) []picture {
	var out []picture
	numbers := make(map[schemas.ImageID]int)
	for _, c := range chunks {
		for i := range c.Members() {
			id, ref := image(int(c.Start) + i)
			n, known := numbers[id]
			if !known {
				n = len(out)
				numbers[id] = n
				out = append(out, picture{id: id})
			}
			if !slices.Contains(out[n].refs, ref) {
				out[n].refs = append(out[n].refs, ref)
			}
		}
	}
	return out
}

// Pauses between two attempts at a store, which double.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Minute
)

// tar returns the positions of the copies of pictures. It makes the tar unless it exists, and retries until ctx ends.
func (r *Repacker) tar(ctx context.Context, name string, list []picture) (map[schemas.ImageID]schemas.ImageRef, Counts, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		copies, counts, err := r.find(ctx, name, list)
		if errors.Is(err, fs.ErrNotExist) {
			copies, counts, err = r.write(ctx, name, list)
		}
		if err == nil || ctx.Err() != nil {
			return copies, counts, errors.Join(err, ctx.Err())
		}
		if !errors.Is(err, fs.ErrExist) { // another owner of the lane was faster
			r.log.Warn("a tar of copies cannot be written or read, and is tried again", keyTar, r.uri(name), keyErr, err)
		}
		select {
		case <-ctx.Done():
			return nil, Counts{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (r *Repacker) uri(name string) string { return shard.ObjectURI(r.o.Root, name) }

// Keys of log lines.
const (
	keyTar   = "tar"
	keyErr   = "err"
	keyCount = "count"
)
