package repack

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"

	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Erase overwrites copies with zeros, and returns how many. All others in their tars stay where they are. Roots are the places
// in which that is allowed, as in BUCKET_ROOTS. Bytes without the hash of the copy are left alone: they were erased before, or
// are something else. So is what is not there any more.
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

// eraseIn writes a tar anew, with zeros in place of some copies.
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
