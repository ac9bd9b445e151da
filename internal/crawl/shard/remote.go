package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// ErrChanged means that an object differs from its listing.
var ErrChanged = errors.New("the object has changed since it was listed")

// Object is one object of a [Catalog], as it was listed.
type Object struct {
	Name    string // below the root
	Size    int64
	Version string // changes whenever the object does
}

// Catalog is implemented by [Objects] that can be listed, and read in their listed version. Errors are those of
// Objects, and errors that wrap [ErrChanged].
type Catalog interface {
	Objects
	// List calls each with every object below the root, in the order of names.
	List(ctx context.Context, each func(Object)) error
	// Describe returns one object as it is now.
	Describe(ctx context.Context, name string) (Object, error)
	// ReadVersion fills buf from offset of the object, if the object still has the listed version.
	ReadVersion(ctx context.Context, o Object, buf []byte, offset int64) error
}

// IsRemote reports whether a path names a place in a store, such as s3://bucket/prefix.
func IsRemote(p string) bool {
	scheme, _, found := strings.Cut(p, "://")
	return found && scheme != "" && scheme != "file" && !strings.ContainsAny(scheme, "/.")
}

// remotePlace splits the URL of a tar or of a prefix into the root and, for a tar, its name below the root.
func remotePlace(p string) (root *url.URL, name string, err error) {
	u, err := url.Parse(p)
	if err != nil {
		return nil, "", err
	}
	if u.Host == "" {
		return nil, "", errors.New("want a URL such as s3://bucket/prefix/")
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); strings.EqualFold(path.Ext(u.Path), ".tar") {
		u.Path, name = path.Split(u.Path)
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
	u.RawPath = ""
	return u, name, nil
}

// openCatalog opens the store that holds a remote place.
func openCatalog(ctx context.Context, root *url.URL, remote OpenRemote) (Catalog, error) {
	objects, err := remote.open(ctx, root)
	if err != nil {
		return nil, err
	}
	if c, ok := objects.(Catalog); ok {
		return c, nil
	}
	return nil, errors.Join(fmt.Errorf("objects of scheme %q cannot be listed", root.Scheme), objects.Close())
}

// ObjectURI returns the URI of an object below a root, without the root's options.
func ObjectURI(root *url.URL, name string) string {
	return (&url.URL{Scheme: root.Scheme, Host: root.Host, Path: path.Join("/", root.Path, name)}).String()
}

// Reading a tar in a store.
const (
	chunkBytes  = 4 << 20
	chunksAhead = 2
	readTries   = 6
	firstPause  = 100 * time.Millisecond // between two tries; it doubles
)

// passingError is a store's fault that has lasted too long. It does not prove the tar bad.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }

// remoteTar reads an object in chunks, the next ones ahead of time. It skips chunks inside a large body that is not
// read. It implements io.ReaderAt for one goroutine.
type remoteTar struct {
	ctx     context.Context //nolint:containedctx // of one scan: io.ReaderAt passes none
	cancel  context.CancelFunc
	catalog Catalog
	object  Object
	chunks  map[int64]*chunk
	reads   sync.WaitGroup
}

type chunk struct {
	ready chan struct{}
	data  []byte
	err   error
}

func newRemoteTar(ctx context.Context, c Catalog, o Object) *remoteTar {
	ctx, cancel := context.WithCancel(ctx)
	return &remoteTar{ctx: ctx, cancel: cancel, catalog: c, object: o, chunks: map[int64]*chunk{}}
}

// ReadAt implements io.ReaderAt. It may return less than p without an error other than the store's, as the scanner
// allows.
func (r *remoteTar) ReadAt(p []byte, at int64) (int, error) {
	if at >= r.object.Size {
		return 0, io.EOF
	}
	number := at / chunkBytes
	c := r.fetch(number)
	if number == 0 || r.chunks[number-1] != nil { // a jump ends the reading ahead, the next chunk begins it again
		for i := range int64(chunksAhead) {
			r.fetch(number + 1 + i)
		}
	}
	for n := range r.chunks {
		if n < number-1 {
			delete(r.chunks, n)
		}
	}
	select {
	case <-c.ready:
	case <-r.ctx.Done():
		return 0, &passingError{r.ctx.Err()}
	}
	if c.err != nil {
		return 0, c.err
	}
	return copy(p, c.data[at-number*chunkBytes:]), nil
}

// fetch returns the chunk, which is being read; nil behind the end.
func (r *remoteTar) fetch(number int64) *chunk {
	from := number * chunkBytes
	if c := r.chunks[number]; c != nil || from >= r.object.Size {
		return c
	}
	c := &chunk{ready: make(chan struct{}), data: make([]byte, min(chunkBytes, r.object.Size-from))}
	r.chunks[number] = c
	r.reads.Go(func() {
		defer close(c.ready)
		c.err = r.read(c.data, from)
	})
	return c
}

// read repeats a read after faults of the store that may pass.
func (r *remoteTar) read(buf []byte, from int64) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	wait := firstPause
	for try := 1; ; try++ {
		err := r.catalog.ReadVersion(r.ctx, r.object, buf, from)
		switch {
		case err == nil:
			return nil
		case isAny(err, ErrMissing, ErrDenied, ErrForbidden):
			return err
		case isAny(err, ErrChanged, ErrTruncated, context.Canceled) || try == readTries:
			return &passingError{fmt.Errorf("reading %d bytes at %d, try %d: %w", len(buf), from, try, err)}
		}
		pause.Reset(wait)
		wait *= 2
		select {
		case <-r.ctx.Done():
			return &passingError{r.ctx.Err()}
		case <-pause.C:
		}
	}
}

// Close stops the reads ahead.
func (r *remoteTar) Close() error {
	r.cancel()
	r.reads.Wait()
	return nil
}

func (r *remoteTar) Size() (int64, error) { return r.object.Size, nil }
