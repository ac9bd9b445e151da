package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestReadRange(t *testing.T) {
	ctx := context.Background()
	mem := memblob.OpenBucket(nil)
	must.Do(t, mem.WriteAll(ctx, "crawl/sub/a.tar", []byte("0123456789"), nil))
	must.Do(t, mem.WriteAll(ctx, "other.tar", []byte("secret"), nil))
	b, err := shard.OpenBucket(ctx, []string{"s3://bucket/crawl"}, func(_ context.Context, root *url.URL) (shard.Objects, error) {
		return &objects{bucket: mem, prefix: "crawl"}, nil
	})
	must.Do(t, err)
	for _, c := range []struct {
		name         string
		uri          string
		offset, size int64
		content      string
		want         error
	}{
		{"a part", "s3://bucket/crawl/sub/a.tar", 3, 4, "3456", nil},
		{"the end", "s3://bucket/crawl/sub/a.tar", 9, 1, "9", nil},
		{"over the end", "s3://bucket/crawl/sub/a.tar", 8, 3, "", shard.ErrTruncated},
		{"at the end", "s3://bucket/crawl/sub/a.tar", 10, 1, "", shard.ErrTruncated},
		{"far behind the end", "s3://bucket/crawl/sub/a.tar", 1 << 40, 1, "", shard.ErrTruncated},
		{"missing", "s3://bucket/crawl/none.tar", 0, 1, "", shard.ErrMissing},
		{"key of 1,025 bytes", "s3://bucket/crawl/" + strings.Repeat("k", 1025-len("crawl/")), 0, 1, "", shard.ErrMissing},
		{"key that is not UTF-8", "s3://bucket/crawl/%ff.tar", 0, 1, "", shard.ErrMissing},
		{"outside the prefix", "s3://bucket/other.tar", 0, 1, "", shard.ErrForbidden},
		{"dots", "s3://bucket/crawl/../other.tar", 0, 1, "", shard.ErrForbidden},
		{"other bytes", "s3://bucket/crawl/sub/a.tar", 3, 4, "xxxx", shard.ErrHashMismatch},
	} {
		ref := schemas.ImageRef{URI: c.uri, Offset: c.offset, Size: c.size}
		got, err := b.ReadRange(ctx, ref, schemas.NewImageID([]byte(c.content)))
		if !errors.Is(err, c.want) || err == nil && string(got) != c.content {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.content, c.want)
		}
	}
	called, cancel := context.WithCancel(ctx)
	cancel()
	_, err = b.ReadRange(called, schemas.ImageRef{URI: "s3://bucket/crawl/sub/a.tar", Size: 1}, schemas.ImageID{})
	if err == nil || shard.Permanent(err) {
		t.Errorf("called off: %v passes for a fault of the image", err)
	}
	must.Do(t, b.Close())
	_, err = b.ReadRange(ctx, schemas.ImageRef{URI: "s3://bucket/crawl/sub/a.tar", Size: 1}, schemas.ImageID{})
	if err == nil || shard.Permanent(err) {
		t.Errorf("after closing: %v passes for a fault of the image", err)
	}
}

// TestClassify covers faults that the in-memory bucket does not have: a connection that breaks off.
func TestClassify(t *testing.T) {
	ctx := context.Background()
	mem := memblob.OpenBucket(nil)
	defer mem.Close()
	must.Do(t, mem.WriteAll(ctx, "a", []byte("0123456789"), nil))
	o := &objects{bucket: mem}
	if err := o.classify(ctx, "a", 2, 8, io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) || shard.Permanent(err) {
		t.Errorf("a broken connection: %v", err)
	}
	if err := o.classify(ctx, "a", 2, 9, io.ErrUnexpectedEOF); !errors.Is(err, shard.ErrTruncated) {
		t.Errorf("a short object: %v", err)
	}
	if err := o.classify(ctx, "b", 0, 1, io.ErrUnexpectedEOF); !errors.Is(err, shard.ErrMissing) {
		t.Errorf("an object that vanished: %v", err)
	}
}

// TestForbiddenObjectsAreDenied: the answer 403 is about one object, which the bucket gives up after a time.
func TestForbiddenObjectsAreDenied(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	root := must.Get(url.Parse("s3://bucket/crawl?region=eu-central-1&use_path_style=true&disable_https=true&endpoint=" + server.URL))(t)
	o := must.Get(Open(t.Context(), root))(t)
	if _, err := o.ReadRange(t.Context(), "a.tar", 0, 1); !errors.Is(err, shard.ErrDenied) {
		t.Errorf("error %v, want %v", err, shard.ErrDenied)
	}
}

// TestObjectsInColdStorageAreDenied: the store keeps these from everybody, until somebody restores them. Refusals of
// credentials concern no object, and may pass.
func TestObjectsInColdStorageAreDenied(t *testing.T) {
	for code, want := range map[string]bool{"InvalidObjectState": true, "KMS.DisabledException": true, "ExpiredToken": false, "SlowDown": false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, ".tar") {
				return
			}
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<?xml version='1.0'?><Error><Code>%s</Code><Message>no</Message></Error>", code)
		}))
		t.Setenv("AWS_ACCESS_KEY_ID", "key")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		root := must.Get(url.Parse("s3://bucket/crawl?region=eu-central-1&use_path_style=true&disable_https=true&endpoint=" + server.URL))(t)
		o := must.Get(Open(t.Context(), root))(t)
		err := o.ReadVersion(t.Context(), shard.Object{Name: "a.tar", Size: 1}, make([]byte, 1), 0)
		if err == nil || errors.Is(err, shard.ErrDenied) != want || want && !strings.Contains(err.Error(), code) {
			t.Errorf("%s: error %v, denied is wanted: %v", code, err, want)
		}
		must.Do(t, o.Close())
		server.Close()
	}
}

func TestOpenRefusesAnUnknownScheme(t *testing.T) {
	for _, root := range []string{"ftp://host/dir", "azblob://container", "mem://"} {
		u := must.Get(url.Parse(root))(t)
		if o, err := Open(context.Background(), u); err == nil {
			t.Errorf("%s: opened %v", root, o)
		}
	}
}

func TestCheckExists(t *testing.T) {
	none := memblob.OpenBucket(nil)
	if err := (&objects{bucket: none}).checkExists(context.Background()); err != nil {
		t.Errorf("an empty bucket: %v", err)
	}
	must.Do(t, none.Close())
	if err := (&objects{bucket: none}).checkExists(context.Background()); err == nil {
		t.Error("a closed bucket exists")
	}
}

func TestOpenNamesTheStores(t *testing.T) {
	_, err := Open(t.Context(), &url.URL{Scheme: "https", Host: "example.org"})
	if err == nil || !strings.Contains(err.Error(), "want a folder, a tar, s3:// or gs://") {
		t.Errorf("an address of the web: %v", err)
	}
}
