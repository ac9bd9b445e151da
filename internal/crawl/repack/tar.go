package repack

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// bufferBytes is the size of reads from and writes to a store.
const bufferBytes = 1 << 20

// find reads an existing tar.
func (r *Repacker) find(ctx context.Context, name string, list []picture) (map[schemas.ImageID]schemas.ImageRef, Counts, error) {
	object, err := r.store.Open(ctx, name)
	if err != nil {
		return nil, Counts{}, err
	}
	copies, err := entries(object, r.uri(name))
	if err := errors.Join(err, object.Close()); err != nil {
		return nil, Counts{}, fmt.Errorf("reading it (delete it if it is broken): %w", err)
	}
	counts := Counts{Images: make(map[string]int)}
	for _, p := range list {
		if _, found := copies[p.id]; found {
			counts.Images[Found]++
		} else {
			counts.Images[Lost]++
		}
	}
	return copies, counts, nil
}

// counting counts the bytes read from a tar.
type counting struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// entries reads the positions of the copies in a tar. The names of entries contain the hashes, so bytes erased since
// then do no harm.
func entries(object io.Reader, uri string) (map[schemas.ImageID]schemas.ImageRef, error) {
	in := &counting{r: bufio.NewReaderSize(object, bufferBytes)}
	copies := make(map[schemas.ImageID]schemas.ImageRef)
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return copies, nil
		}
		if err != nil {
			return nil, err
		}
		image, copied, err := parseKey(strings.TrimSuffix(h.Name, ".jpg"))
		if err != nil {
			return nil, fmt.Errorf("entry %q is none of a copy: %w", h.Name, err)
		}
		copies[image] = schemas.ImageRef{URI: uri, Offset: in.n, Size: h.Size, Copy: copied}
	}
}

// key names the entry of a copy.
func key(image, copied schemas.ImageID) string { return image.String() + "-" + copied.String() }

func parseKey(name string) (image, copied schemas.ImageID, err error) {
	a, b, _ := strings.Cut(name, "-")
	for _, part := range []struct {
		digits string
		into   *schemas.ImageID
	}{{a, &image}, {b, &copied}} {
		raw, err := hex.DecodeString(part.digits)
		if err != nil || len(raw) != len(part.into) {
			return image, copied, fmt.Errorf("want two hashes of %d hexadecimal digits", 2*len(part.into))
		}
		*part.into = schemas.ImageID(raw)
	}
	return image, copied, nil
}

// write makes a tar.
func (r *Repacker) write(ctx context.Context, name string, list []picture) (map[schemas.ImageID]schemas.ImageRef, Counts, error) {
	copies, counts := make(map[schemas.ImageID]schemas.ImageRef), Counts{Images: make(map[string]int)}
	var lost error // of the first image without a copy
	err := r.store.Write(ctx, name, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, bufferBytes)
		t := shard.NewWriter(out)
		err := r.inOrder(ctx, list, func(p picture, m made) error {
			counts.Images[m.outcome]++
			if m.err != nil {
				if lost == nil {
					lost = m.err
				}
				return nil
			}
			copied := schemas.NewImageID(m.data)
			at, err := t.Write(key(p.id, copied), shard.File{Ext: "jpg", Data: m.data})
			if err != nil {
				return err
			}
			copies[p.id] = schemas.ImageRef{URI: r.uri(name), Offset: at[0], Size: int64(len(m.data)), Copy: copied}
			counts.Bytes += int64(len(m.data))
			return nil
		})
		if err != nil {
			return err
		}
		return errors.Join(t.Close(), out.Flush())
	})
	if err != nil {
		return nil, Counts{}, err
	}
	if lost != nil {
		r.log.Warn("images have no copies, and keep their references", keyTar, r.uri(name), keyCount, counts.All()-len(copies), keyErr, lost)
	}
	return copies, counts, nil
}

// Erase overwrites copies with zeros, and returns their number. The positions of all others stay. roots are the places
// in which this is allowed, as in BUCKET_ROOTS. Erase leaves bytes alone that do not have the hash of the copy: they
// were erased before, or are something else. It ignores missing tars.
func Erase(ctx context.Context, roots []string, copies []schemas.ImageRef) (erased int, err error) {
	bucket, err := shard.OpenBucket(ctx, roots, nil)
	if err != nil {
		return 0, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	tars := make(map[string][]schemas.ImageRef)
	for _, ref := range copies {
		_, err := bucket.ReadRange(ctx, ref, schemas.ImageID{})
		switch {
		case err == nil:
			tars[ref.URI] = append(tars[ref.URI], ref)
		case !errors.Is(err, shard.ErrHashMismatch) && !errors.Is(err, shard.ErrMissing):
			return 0, fmt.Errorf("looking at a copy: %w", err)
		}
	}
	for uri, refs := range tars {
		if err := eraseIn(ctx, uri, roots, refs); err != nil {
			return erased, fmt.Errorf("erasing copies in %s: %w", uri, err)
		}
		erased += len(refs)
	}
	return erased, nil
}

// eraseIn rewrites a tar, with zeros in place of some copies.
func eraseIn(ctx context.Context, uri string, roots []string, refs []schemas.ImageRef) (err error) {
	place, err := url.Parse(uri)
	if err != nil {
		return err
	}
	name := path.Base(place.Path)
	place.Path = path.Dir(place.Path)
	store, err := shard.OpenPlace(ctx, place.String(), roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	tar, err := store.Open(ctx, name)
	if err != nil {
		return err
	}
	slices.SortFunc(refs, func(a, b schemas.ImageRef) int { return cmp.Compare(a.Offset, b.Offset) })
	refs = slices.Compact(refs)
	err = store.Rewrite(ctx, name, func(w io.Writer) error { return copyWithout(w, tar, refs) })
	return errors.Join(err, tar.Close())
}

// copyWithout copies a tar, with zeros in place of the ranges of refs, which come in order.
func copyWithout(w io.Writer, tar io.Reader, refs []schemas.ImageRef) error {
	out, in, at := bufio.NewWriterSize(w, bufferBytes), bufio.NewReaderSize(tar, bufferBytes), int64(0)
	for _, ref := range refs {
		if _, err := io.CopyN(out, in, ref.Offset-at); err != nil {
			return err
		}
		if _, err := out.Write(make([]byte, ref.Size)); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, ref.Size); err != nil {
			return err
		}
		at = ref.Offset + ref.Size
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Flush()
}
