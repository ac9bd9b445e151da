// Package cloud opens object stores as roots of a shard.Bucket: s3:// (Amazon S3 and compatible stores) and gs://
// (Google Cloud Storage), through gocloud.dev/blob.
//
// A root is a URL of gocloud.dev: s3://bucket/prefix?region=eu-central-1, with endpoint and the like as query
// parameters. Credentials come from the same sources as for the stores' own tools. The package is separate from
// internal/crawl/shard because the stores' clients are large, and only programs that read from stores should carry
// them.
//
// Everything is safe for concurrent use.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// Use lets the program open object stores.
func Use() { shard.UseStores(Open) }

// Open opens the bucket of a root.
func Open(ctx context.Context, root *url.URL) (shard.Store, error) {
	var mux blob.URLMux
	mux.RegisterBucket(s3blob.Scheme, new(s3blob.URLOpener))
	mux.RegisterBucket(gcsblob.Scheme, blob.DefaultURLMux()) // its opener looks up credentials; gcsblob.URLOpener has none
	if !mux.ValidBucketScheme(root.Scheme) {
		return nil, fmt.Errorf("there is no store %s://: want a folder, a tar, s3:// or gs://, and download other data first", root.Scheme)
	}
	bucketURL := *root
	bucketURL.Path = ""
	b, err := mux.OpenBucketURL(context.WithoutCancel(ctx), &bucketURL) // credentials are renewed for as long as the process runs
	if err != nil {
		return nil, err
	}
	o := &objects{bucket: b, prefix: strings.Trim(root.Path, "/")}
	if err := o.checkExists(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return o, nil
}

// objects are the objects of a bucket with keys below prefix.
type objects struct {
	bucket *blob.Bucket
	prefix string
}

// checkExists asks for the bucket, because later a missing bucket looks like a missing object. A client that may read
// objects need not be allowed to list them.
func (o *objects) checkExists(ctx context.Context) error {
	ok, err := o.bucket.IsAccessible(ctx)
	switch {
	case err != nil && gcerrors.Code(err) != gcerrors.PermissionDenied:
		return err
	case err == nil && !ok:
		return errors.New("the bucket does not exist")
	}
	return nil
}

// maxKeyBytes is the length of the longest key that a store can hold. Asking for others is an error that never passes.
const maxKeyBytes = 1024

func (o *objects) ReadRange(ctx context.Context, name string, offset, size int64) ([]byte, error) {
	key := path.Join(o.prefix, name)
	if len(key) > maxKeyBytes || !utf8.ValidString(key) {
		return nil, fmt.Errorf("%w: a key is UTF-8 of at most %d bytes", shard.ErrMissing, maxKeyBytes)
	}
	r, err := o.bucket.NewRangeReader(ctx, key, offset, size, nil)
	if err != nil {
		return nil, o.classify(ctx, key, offset, size, err)
	}
	defer r.Close()
	if r.Size() >= 0 && offset > r.Size()-size {
		return nil, truncated(r.Size())
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, o.classify(ctx, key, offset, size, err)
	}
	return data, nil
}

// withheld returns the error code of an answer that denies one object to everybody, or "".
func withheld(err error) string {
	var answer interface {
		error
		ErrorCode() string
	}
	if errors.As(err, &answer) && (answer.ErrorCode() == "InvalidObjectState" || strings.HasPrefix(answer.ErrorCode(), "KMS.")) {
		return answer.ErrorCode()
	}
	return ""
}

// classify tells an object that is missing or too short from a fault that may pass. Stores differ in their answers to a
// range after the end and to a broken connection, so classify asks for the object's size.
func (o *objects) classify(ctx context.Context, key string, offset, size int64, cause error) error {
	switch gcerrors.Code(cause) {
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", shard.ErrMissing, cause)
	case gcerrors.PermissionDenied, gcerrors.InvalidArgument:
		return fmt.Errorf("%w: %w", shard.ErrDenied, cause)
	default: // the object's size tells more
	}
	if code := withheld(cause); code != "" {
		return fmt.Errorf("%w: it is in cold storage, or its key cannot be used (%s): restore it first: %w", shard.ErrDenied, code, cause)
	}
	if ctx.Err() != nil {
		return cause
	}
	switch attrs, err := o.bucket.Attributes(ctx, key); {
	case err == nil && offset > attrs.Size-size:
		return truncated(attrs.Size)
	case err != nil && gcerrors.Code(err) == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", shard.ErrMissing, err)
	case err != nil:
		return errors.Join(cause, err)
	}
	return cause
}

func truncated(size int64) error {
	return fmt.Errorf("%w: the object has %d bytes", shard.ErrTruncated, size)
}

func (o *objects) Close() error { return o.bucket.Close() }

var _ shard.OpenRemote = new(Stores).Open

// Stores opens buckets and keeps them open, for callers that come back often. The zero value has none open.
type Stores struct {
	mu   sync.Mutex
	kept map[string]*blob.Bucket
}

// Open is [Open] with a bucket that stays open until [Stores.Close], and is checked once for existence.
func (s *Stores) Open(ctx context.Context, root *url.URL) (shard.Objects, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := root.Scheme + "://" + root.Host + "?" + root.RawQuery
	if b, found := s.kept[key]; found {
		return shared{&objects{bucket: b, prefix: strings.Trim(root.Path, "/")}}, nil
	}
	opened, err := Open(ctx, root)
	if err != nil {
		return nil, err
	}
	if s.kept == nil {
		s.kept = make(map[string]*blob.Bucket)
	}
	o := opened.(*objects)
	s.kept[key] = o.bucket
	return shared{o}, nil
}

// Close closes the buckets. A later Open reopens them, with the credentials of that time.
func (s *Stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.kept {
		errs = append(errs, b.Close())
	}
	s.kept = nil
	return errors.Join(errs...)
}

// shared are objects of a bucket that stays open.
type shared struct{ *objects }

// Close implements [shard.Objects].
func (shared) Close() error { return nil }
