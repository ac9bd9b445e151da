//go:build s3

package repack_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/repack"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/gcstest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/schemas"
)

// TestS3Copies copies a group within a bucket, twice, and reads the copies. The tar is of two parts of an upload.
func TestS3Copies(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "crawl")
	copiesIn(t, server.URL("crawl"))
}

// TestGCSCopies does the same on an emulator of Google Cloud Storage.
func TestGCSCopies(t *testing.T) {
	gcstest.Bucket(t, "crawl")
	copiesIn(t, "gs://crawl")
}

// images is a source in memory.
type images map[schemas.ImageID][]byte

// ReadRange implements [repack.Source].
func (m images) ReadRange(_ context.Context, _ schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	if data, ok := m[id]; ok {
		return data, nil
	}
	return nil, shard.ErrMissing
}

// noisy returns a JPEG of about 90 KB.
func noisy(t *testing.T, number int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 300, 300))
	for i := range m.Pix {
		m.Pix[i] = byte(i * i * (2*number + 7) >> 3)
	}
	var out bytes.Buffer
	must.Do(t, jpeg.Encode(&out, m, &jpeg.Options{Quality: 95}))
	return out.Bytes()
}

func copiesIn(t *testing.T, place string) {
	t.Helper()
	const n = 100
	crawl, ids := images{}, []schemas.ImageID{}
	for i := range n {
		data := noisy(t, i)
		ids = append(ids, schemas.NewImageID(data))
		crawl[ids[i]] = data
	}
	withOptions := must.Get(url.Parse(place))(t)
	withOptions.Path = "/copies"
	root := &url.URL{Scheme: withOptions.Scheme, Host: withOptions.Host, Path: withOptions.Path}
	bucket := must.Get(shard.OpenStore(t.Context(), withOptions))(t)
	defer func() { must.Check(t, bucket.Close()) }()
	fails := errors.New("stop")
	if err := bucket.Write(t.Context(), "half", func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 6<<20)); err != nil {
			return err
		}
		return fails
	}); !errors.Is(err, fails) {
		t.Errorf("half an object: %v, want the writer's error", err)
	}
	if is, err := bucket.Has(t.Context(), "half"); is || err != nil {
		t.Errorf("half an object is there: %t, %v", is, err)
	}
	for _, size := range []int{9, 11 << 20, 40 << 20} { // in one request, and in parts
		name := strconv.Itoa(size)
		write := func(fill byte) error {
			return bucket.Write(t.Context(), name, func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte{fill}, size)); return err })
		}
		must.Do(t, write('a'))
		// A server may refuse a large object by cutting the connection.
		if err := write('b'); err == nil || size == 9 && !errors.Is(err, fs.ErrExist) {
			t.Errorf("an object of %d bytes is written twice: %v", size, err)
		}
		object := must.Get(bucket.Open(t.Context(), name))(t)
		if raw, err := io.ReadAll(object); err != nil || !bytes.Equal(raw, bytes.Repeat([]byte{'a'}, size)) {
			t.Errorf("an object of %d bytes is not what was written first: %d bytes, %v", size, len(raw), err)
		}
		must.Check(t, object.Close())
	}
	var copies []schemas.ImageRef
	run := func(source images) []byte {
		copies = nil
		r := repack.New(source, bucket, func(schemas.ImageID) bool { return false }, repack.Options{Root: root, Side: 400, Workers: 4}, slog.New(slog.DiscardHandler))
		c := &schemas.NeighborChunk{}
		for i, id := range ids {
			pair := schemas.NewPairID(id, strconv.Itoa(i))
			c.IDs, c.Cluster, c.ObjEnd = append(c.IDs, pair[:]...), append(c.Cluster, 0), append(c.ObjEnd, 0)
		}
		g := repack.Group{Chunks: []*schemas.NeighborChunk{c}, Image: func(i int) (schemas.ImageID, schemas.ImageRef) {
			return ids[i], schemas.ImageRef{URI: "s3://crawl/a.tar", Size: 1}
		}}
		must.Do(t, r.Copy(t.Context(), g, func(repack.Counts) {}))
		read := must.Get(shard.OpenBucket(t.Context(), []string{place}, nil))(t)
		for i, id := range ids {
			ref, copied := c.Copy(i)
			copies = append(copies, ref)
			if data, err := read.ReadRange(t.Context(), ref, id); err != nil || !copied || !bytes.Equal(data, crawl[id]) {
				t.Fatalf("copy %d at %+v: %d bytes, %v", i, ref, len(data), err)
			}
		}
		raw, err := schemas.Marshal(c)
		must.Do(t, errors.Join(err, read.Close()))
		return raw
	}
	first := run(crawl)
	if again := run(images{}); !slices.Equal(again, first) {
		t.Error("an owner that finds the tar comes to other places")
	}
	for _, want := range []int{2, 0} {
		if erased, err := repack.Erase(t.Context(), []string{place}, []schemas.ImageRef{copies[70], copies[3]}); erased != want || err != nil {
			t.Errorf("erased %d copies, %v, want %d", erased, err, want)
		}
	}
	if erased, err := repack.Erase(t.Context(), []string{place}, copies); erased != n-2 || err != nil {
		t.Errorf("erased %d of the other copies, %v", erased, err)
	}
}
