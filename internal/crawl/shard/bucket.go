package shard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// The permanent errors of reading an image: another try gives the same result.
var (
	ErrForbidden    = errors.New("image reference is outside the bucket roots")
	ErrMissing      = errors.New("image object does not exist")
	ErrTruncated    = errors.New("image object ends before the image")
	ErrHashMismatch = errors.New("image bytes do not have the image id")
	ErrForgotten    = errors.New("image is forgotten")
	ErrDenied       = errors.New("image object may not be read") // for as long as [DeniedFor]; see there
)

// Permanent reports whether an error of a [Bucket] or of [Images] concerns the image and will not pass. All other
// errors are faults of the bucket, worth another try.
func Permanent(err error) bool { return MaskReason(err) != "" }

// MaskReason returns the reason of a [schemas.Mask] for a permanent error, and "" for any other.
func MaskReason(err error) string {
	switch {
	case isAny(err, ErrMissing, ErrTruncated):
		return schemas.MaskMissing
	case isAny(err, ErrForgotten):
		return schemas.MaskForgotten
	case isAny(err, ErrHashMismatch):
		return schemas.MaskChanged
	case isAny(err, ErrForbidden, ErrDenied):
		return schemas.MaskForbidden
	case isAny(err, imaging.ErrNotImage, imaging.ErrTooLarge):
		return schemas.MaskUnusable
	}
	return ""
}

// Objects holds objects by name; names are relative to its root. Errors that wrap [ErrMissing], [ErrTruncated] or
// [ErrForbidden] are final. One that wraps [ErrDenied] means that the store refuses the object now; the bucket decides
// when this is final. All others are faults that may pass.
type Objects interface {
	// ReadRange returns exactly size bytes from offset.
	ReadRange(ctx context.Context, name string, offset, size int64) ([]byte, error)
	Close() error
}

// forgetter is implemented by Objects that keep objects open. forget closes one and reports whether it was open: then
// a wrong answer may come from an object that has been replaced since.
type forgetter interface{ forget(name string) bool }

// OpenRemote opens the objects below a root whose scheme is not file.
type OpenRemote func(ctx context.Context, root *url.URL) (Objects, error)

// Bucket reads images by reference from below its roots.
type Bucket struct {
	roots []bucketRoot // the most specific first
}

type bucketRoot struct {
	scheme, host string
	prefix       string // path without slash at the end
	objects      Objects
	denials      *denials
}

// OpenBucket opens the roots that references may name: URLs such as file:///data or s3://bucket/prefix. remote opens
// those that are not file URLs; nil: [OpenStore] does.
func OpenBucket(ctx context.Context, roots []string, remote OpenRemote) (*Bucket, error) {
	b := &Bucket{}
	for _, raw := range roots {
		root, err := openRoot(ctx, raw, remote)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening bucket root %q: %w", raw, err), b.Close())
		}
		b.roots = append(b.roots, root)
	}
	slices.SortStableFunc(b.roots, func(x, y bucketRoot) int { return len(y.prefix) - len(x.prefix) })
	return b, nil
}

func openRoot(ctx context.Context, raw string, remote OpenRemote) (bucketRoot, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return bucketRoot{}, err
	}
	root := bucketRoot{scheme: u.Scheme, host: u.Host, prefix: strings.TrimSuffix(u.Path, "/"), denials: new(denials)}
	switch u.Scheme {
	case "":
		return root, errors.New("want a URL such as file:///data or s3://bucket/prefix")
	case "file":
		root.host = localHost(u.Host)
		if root.host != "" || !path.IsAbs(u.Path) {
			return root, errors.New("want file:// followed by an absolute path")
		}
		dir, err := openFolder(u.Path)
		if err != nil {
			return root, err
		}
		root.objects, root.prefix = dir, dir.prefix()
		return root, nil
	}
	root.objects, err = remote.open(ctx, u)
	return root, err
}

// localHost drops the name that file URLs may give this machine.
func localHost(host string) string {
	if host == "localhost" {
		return ""
	}
	return host
}

// ReadRange returns the image that ref points at, whose id must be id, or the copy of it that ref names by its own
// hash. See [Permanent] for its errors.
func (b *Bucket) ReadRange(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	data, err := b.read(ctx, ref, id)
	if err != nil {
		return nil, fmt.Errorf("reading image %s of %d bytes at %d of %s: %w", id, ref.Size, ref.Offset, ref.URI, err)
	}
	return data, nil
}

func (b *Bucket) read(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	root, name, err := b.resolve(ref)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := readChecked(ctx, root.objects, name, ref, id)
	if errors.Is(err, ErrTruncated) || errors.Is(err, ErrHashMismatch) {
		if f, ok := root.objects.(forgetter); ok && f.forget(name) {
			data, err = readChecked(ctx, root.objects, name, ref, id)
		}
	}
	return data, root.denials.judge(err)
}

func readChecked(ctx context.Context, o Objects, name string, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error) {
	data, err := o.ReadRange(ctx, name, ref.Offset, ref.Size)
	if err != nil {
		return nil, err
	}
	if got := schemas.NewImageID(data); got != ref.BytesID(id) {
		return nil, fmt.Errorf("%w: they have %s", ErrHashMismatch, got)
	}
	return data, nil
}

// resolve finds the root that a reference lies under and the object's name there.
func (b *Bucket) resolve(ref schemas.ImageRef) (bucketRoot, string, error) {
	if ref.Offset < 0 || ref.Size <= 0 || ref.Size > schemas.MaxImageBytes {
		return bucketRoot{}, "", fmt.Errorf("%w: %d bytes at %d", ErrForbidden, ref.Size, ref.Offset)
	}
	u, err := url.Parse(ref.URI)
	if err != nil {
		return bucketRoot{}, "", fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	host := u.Host
	if u.Scheme == "file" {
		host = localHost(host)
	}
	for _, root := range b.roots {
		name, below := strings.CutPrefix(u.Path, root.prefix+"/")
		if u.Scheme == root.scheme && host == root.host && below {
			if !plainName(name) {
				return bucketRoot{}, "", fmt.Errorf("%w: %q is no plain object name", ErrForbidden, name)
			}
			return root, name, nil
		}
	}
	return bucketRoot{}, "", ErrForbidden
}

// plainName reports whether a name has neither empty nor dotted parts, which a proxy or store might resolve.
func plainName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\x00\\") {
			return false
		}
	}
	return true
}

// Close closes the objects that the roots keep open.
func (b *Bucket) Close() error {
	var err error
	for _, r := range b.roots {
		err = errors.Join(err, r.objects.Close())
	}
	return err
}

// DeniedFor bounds the time for which a denied object is tried again, since credentials may be renewed. A refusal is
// final at once when another object of the root was read since the first refusal: then the credentials are good.
const DeniedFor = 2 * time.Minute

// denials distinguishes denied objects of one root from expired credentials.
type denials struct {
	mu    sync.Mutex
	first time.Time // refusal of the current series; zero: there is none
	last  time.Time // refusal
	read  bool      // another object was read since first
}

// judge returns the error of a read. A refusal that may still pass no longer wraps ErrDenied.
func (d *denials) judge(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if !d.first.IsZero() && now.Sub(d.last) >= DeniedFor+time.Minute {
		d.first = time.Time{} // a refusal after so long a time begins another series
	}
	switch {
	case err == nil:
		d.read = true
		return nil
	case !errors.Is(err, ErrDenied):
		return err
	case d.first.IsZero():
		d.first, d.read = now, false
	}
	d.last = now
	if d.read || now.Sub(d.first) >= DeniedFor {
		return err
	}
	return fmt.Errorf("trying again for %v: %s", DeniedFor-now.Sub(d.first), err.Error())
}

func (o OpenRemote) open(ctx context.Context, root *url.URL) (Objects, error) {
	if o == nil {
		return OpenStore(ctx, root)
	}
	return o(ctx, root)
}
