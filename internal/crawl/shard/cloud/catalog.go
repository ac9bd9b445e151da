package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/pairstream/pairstream/internal/crawl/shard"
)

func (o *objects) List(ctx context.Context, each func(shard.Object)) error {
	prefix := ""
	if o.prefix != "" {
		prefix = o.prefix + "/"
	}
	list := o.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		found, err := list.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("listing the objects: %w", err)
		case found.IsDir || strings.HasSuffix(found.Key, "/"):
			continue
		}
		each(shard.Object{Name: strings.TrimPrefix(found.Key, prefix), Size: found.Size, Version: version(found.As, found.ModTime)})
	}
}

func (o *objects) Describe(ctx context.Context, name string) (shard.Object, error) {
	key := path.Join(o.prefix, name)
	attrs, err := o.bucket.Attributes(ctx, key)
	switch {
	case err != nil && gcerrors.Code(err) == gcerrors.NotFound:
		return shard.Object{}, fmt.Errorf("%w: %w", shard.ErrMissing, err)
	case err != nil:
		return shard.Object{}, err
	}
	return shard.Object{Name: name, Size: attrs.Size, Version: version(attrs.As, attrs.ModTime)}, nil
}

// Prefixes of versions, by the kind of the store's version.
const (
	byETag       = "etag "
	byGeneration = "generation "
)

// version returns a string that changes with every state of an object.
func version(as func(any) bool, changed time.Time) string {
	var listed types.Object
	var head s3.HeadObjectOutput
	var google storage.ObjectAttrs
	switch {
	case as(&listed) && listed.ETag != nil:
		return byETag + *listed.ETag
	case as(&head) && head.ETag != nil:
		return byETag + *head.ETag
	case as(&google) && google.Generation != 0:
		return byGeneration + strconv.FormatInt(google.Generation, 10)
	}
	return changed.UTC().Format(time.RFC3339Nano)
}

// ReadVersion implements [shard.Catalog] with one range request, which the store refuses when the object has changed.
func (o *objects) ReadVersion(ctx context.Context, object shard.Object, buf []byte, offset int64) error {
	key := path.Join(o.prefix, object.Name)
	r, err := o.bucket.NewRangeReader(ctx, key, offset, int64(len(buf)), &blob.ReaderOptions{
		BeforeRead: func(as func(any) bool) error { return pin(as, object.Version) },
	})
	if err != nil {
		return o.classifyVersion(ctx, key, offset, int64(len(buf)), err)
	}
	defer r.Close()
	if r.Size() >= 0 && r.Size() != object.Size {
		return fmt.Errorf("%w: it has %d bytes, and had %d", shard.ErrChanged, r.Size(), object.Size)
	}
	if _, err := io.ReadFull(r, buf); err != nil {
		return o.classifyVersion(ctx, key, offset, int64(len(buf)), err)
	}
	return nil
}

// pin makes a read fail unless the object has this version. For stores of neither kind only the size is checked.
func pin(as func(any) bool, version string) error {
	var in *s3.GetObjectInput
	var handle **storage.ObjectHandle
	etag, isETag := strings.CutPrefix(version, byETag)
	generation, isGeneration := strings.CutPrefix(version, byGeneration)
	switch {
	case isETag && as(&in):
		in.IfMatch = aws.String(etag)
	case isGeneration && as(&handle):
		n, err := strconv.ParseInt(generation, 10, 64)
		if err != nil {
			return fmt.Errorf("version %q of the object: %w", version, err)
		}
		*handle = (*handle).If(storage.Conditions{GenerationMatch: n})
	}
	return nil
}

func (o *objects) classifyVersion(ctx context.Context, key string, offset, size int64, cause error) error {
	if gcerrors.Code(cause) == gcerrors.FailedPrecondition {
		return fmt.Errorf("%w: %w", shard.ErrChanged, cause)
	}
	return o.classify(ctx, key, offset, size, cause)
}

func (o *objects) Has(ctx context.Context, name string) (bool, error) {
	return o.bucket.Exists(ctx, path.Join(o.prefix, name))
}

func (o *objects) Put(ctx context.Context, name string, from *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return o.bucket.Upload(ctx, path.Join(o.prefix, name), from, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

func (o *objects) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	return o.write(ctx, name, write, true)
}

func (o *objects) Rewrite(ctx context.Context, name string, write func(io.Writer) error) error {
	return o.write(ctx, name, write, false)
}

func (o *objects) write(ctx context.Context, name string, write func(io.Writer) error, anew bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := o.bucket.NewWriter(ctx, path.Join(o.prefix, name), &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: anew})
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		cancel() // otherwise Close would create an object from the partial content
		return errors.Join(err, w.Close())
	}
	err = w.Close()
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func (o *objects) Sizes(ctx context.Context) (map[string]int64, error) {
	sizes := make(map[string]int64)
	err := o.List(ctx, func(found shard.Object) { sizes[found.Name] = found.Size })
	return sizes, err
}

func (o *objects) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := o.bucket.NewReader(ctx, path.Join(o.prefix, name), nil)
	if err != nil {
		return nil, gone(err)
	}
	return r, nil
}

func (o *objects) Delete(ctx context.Context, name string) error {
	return gone(o.bucket.Delete(ctx, path.Join(o.prefix, name)))
}

// gone marks the error of an object that does not exist.
func gone(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
