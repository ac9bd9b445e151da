package repack

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/schemas"
)

// bufferBytes is what is read from and written to a store at once.
const bufferBytes = 1 << 20

// find returns what a tar holds that is there already.
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

// counting knows how much was read from a tar.
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

// entries reads the places of the copies in a tar. Their names have the hashes, so bytes that were erased since do no harm.
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
