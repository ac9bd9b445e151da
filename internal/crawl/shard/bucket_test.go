package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func openBucket(t testing.TB, roots ...string) *shard.Bucket {
	t.Helper()
	b := must.Get(shard.OpenBucket(context.Background(), roots, nil))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}

func TestBucketReadsOnlyBelowItsRoots(t *testing.T) {
	base := t.TempDir()
	for _, d := range []string{"data/sub", "data-2", "secret"} {
		must.Do(t, os.MkdirAll(filepath.Join(base, d), 0o700))
	}
	content := []byte("0123456789")
	inside := writeFile(t, filepath.Join(base, "data"), "a b%.tar", content)
	data := filepath.Dir(inside)
	writeFile(t, filepath.Join(base, "data/sub"), "s.tar", content)
	writeFile(t, filepath.Join(base, "data-2"), "a.tar", content)
	writeFile(t, filepath.Join(base, "secret"), "key", content)
	secret := filepath.Join(filepath.Dir(data), "secret")
	for name, target := range map[string]string{
		"out": secret, "out-relative": "../secret", "in": "sub", "in-absolute": filepath.Join(data, "sub"), "loop": "loop", "dangling": "nowhere",
	} {
		must.Do(t, os.Symlink(target, filepath.Join(data, name)))
	}
	must.Do(t, syscall.Mkfifo(filepath.Join(data, "pipe"), 0o600))
	b := openBucket(t, shard.FileURI(data))
	root := shard.FileURI(data)
	for _, c := range []struct {
		name string
		uri  string
		off  int64
		size int64
		want error
	}{
		{"a file", shard.FileURI(inside), 2, 3, nil},
		{"the whole file", shard.FileURI(inside), 0, 10, nil},
		{"below", root + "/sub/s.tar", 9, 1, nil},
		{"localhost", "file://localhost" + shard.FileURI(inside)[len("file://"):], 2, 3, nil},
		{"through a link inside", root + "/in/s.tar", 0, 1, nil},
		{"one byte too many", shard.FileURI(inside), 8, 3, shard.ErrTruncated},
		{"behind the end", shard.FileURI(inside), 11, 1, shard.ErrTruncated},
		{"far behind the end", shard.FileURI(inside), 1<<63 - 1, 1, shard.ErrTruncated},
		{"missing", root + "/none.tar", 0, 1, shard.ErrMissing},
		{"a folder", root + "/sub", 0, 1, shard.ErrMissing},
		{"below a file", shard.FileURI(inside) + "/x", 0, 1, shard.ErrMissing},
		{"a pipe", root + "/pipe", 0, 1, shard.ErrMissing},
		{"a dangling link", root + "/dangling", 0, 1, shard.ErrMissing},
		{"a link to itself", root + "/loop", 0, 1, shard.ErrMissing},
		{"a link out", root + "/out/key", 0, 1, shard.ErrForbidden},
		{"a relative link out", root + "/out-relative/key", 0, 1, shard.ErrForbidden},
		{"an absolute link", root + "/in-absolute/s.tar", 0, 1, shard.ErrForbidden},
		{"dots", root + "/../secret/key", 0, 1, shard.ErrForbidden},
		{"dots that come back", root + "/sub/../sub/s.tar", 0, 1, shard.ErrForbidden},
		{"escaped dots", root + "/%2e%2e/secret/key", 0, 1, shard.ErrForbidden},
		{"a neighbour of like name", root + "-2/a.tar", 0, 1, shard.ErrForbidden},
		{"outside", shard.FileURI(secret + "/key"), 0, 1, shard.ErrForbidden},
		{"the root itself", root, 0, 1, shard.ErrForbidden},
		{"another host", "file://elsewhere" + root[len("file://"):] + "/sub/s.tar", 0, 1, shard.ErrForbidden},
		{"another scheme", "s3://bucket/a.tar", 0, 1, shard.ErrForbidden},
		{"a plain path", inside, 0, 1, shard.ErrForbidden},
		{"a zero byte", root + "/a%00b", 0, 1, shard.ErrForbidden},
		{"no URL", "file://%zz", 0, 1, shard.ErrForbidden},
		{"negative offset", shard.FileURI(inside), -1, 1, shard.ErrForbidden},
		{"no size", shard.FileURI(inside), 0, 0, shard.ErrForbidden},
		{"too large", shard.FileURI(inside), 0, schemas.MaxImageBytes + 1, shard.ErrForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := schemas.ImageRef{URI: c.uri, Offset: c.off, Size: c.size}
			if c.want == nil {
				want := content[c.off : c.off+c.size]
				got, err := b.ReadRange(context.Background(), ref, schemas.NewImageID(want))
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("got %q, %v, want %q", got, err, want)
				}
				return
			}
			got, err := b.ReadRange(context.Background(), ref, schemas.ImageID{})
			if got != nil || !errors.Is(err, c.want) || !shard.Permanent(err) {
				t.Fatalf("got %q, %v (permanent %v), want %v", got, err, shard.Permanent(err), c.want)
			}
		})
	}
}

func TestBucketChecksTheHash(t *testing.T) {
	path := writeFile(t, t.TempDir(), "a.tar", []byte("0123456789"))
	b := openBucket(t, shard.FileURI(filepath.Dir(path)))
	ref := schemas.ImageRef{URI: shard.FileURI(path), Offset: 1, Size: 3}
	if _, err := b.ReadRange(context.Background(), ref, schemas.NewImageID([]byte("124"))); !errors.Is(err, shard.ErrHashMismatch) {
		t.Fatalf("%v, want %v", err, shard.ErrHashMismatch)
	}
	ref.Copy = schemas.NewImageID([]byte("123"))
	if data, err := b.ReadRange(context.Background(), ref, schemas.NewImageID([]byte("a larger image"))); err != nil || string(data) != "123" {
		t.Fatalf("of a copy, which has a hash of its own: %q, %v", data, err)
	}
	ref.Copy = schemas.NewImageID([]byte("124"))
	if _, err := b.ReadRange(context.Background(), ref, schemas.NewImageID([]byte("123"))); !errors.Is(err, shard.ErrHashMismatch) {
		t.Fatalf("of a copy that has changed: %v, want %v", err, shard.ErrHashMismatch)
	}
}

// TestBucketSeesFilesChange covers open files that were replaced, grew or vanished behind the bucket's back.
func TestBucketSeesFilesChange(t *testing.T) {
	path := writeFile(t, t.TempDir(), "a.tar", []byte("old"))
	b := openBucket(t, shard.FileURI(filepath.Dir(path)))
	read := func(want string) error {
		ref := schemas.ImageRef{URI: shard.FileURI(path), Size: int64(len(want))}
		_, err := b.ReadRange(context.Background(), ref, schemas.NewImageID([]byte(want)))
		return err
	}
	must.Do(t, read("old"))
	f := must.Get(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Get(f.WriteString("er"))(t)
	if err := errors.Join(f.Close(), read("older")); err != nil {
		t.Fatalf("after growing: %v", err)
	}
	replacement := writeFile(t, filepath.Dir(path), "b", []byte("brand new"))
	if err := errors.Join(os.Rename(replacement, path), read("new?")); !errors.Is(err, shard.ErrHashMismatch) {
		t.Fatalf("wrong bytes after replacing: %v", err)
	}
	if err := read("brand new"); err != nil {
		t.Fatalf("after replacing: %v", err)
	}
	if err := errors.Join(os.Remove(path), read("old")); !errors.Is(err, shard.ErrMissing) {
		t.Fatalf("after removing: %v", err)
	}
}

// TestBucketKeepsFewFilesOpen reads more tars than are kept open, from several goroutines.
func TestBucketKeepsFewFilesOpen(t *testing.T) {
	dir := t.TempDir()
	var refs []schemas.ImageRef
	for i := range 300 {
		path := writeFile(t, dir, fmt.Sprintf("%03d.tar", i), fmt.Appendf(nil, "content %03d", i))
		refs = append(refs, schemas.ImageRef{URI: shard.FileURI(path), Offset: 8, Size: 3})
	}
	real := must.Get(filepath.EvalSymlinks(dir))(t)
	before := openFiles(t)
	b := openBucket(t, shard.FileURI(real))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 600 {
				n := (i*7 + g*31) % len(refs)
				if _, err := b.ReadRange(context.Background(), refs[n], schemas.NewImageID(fmt.Appendf(nil, "%03d", n))); err != nil {
					t.Errorf("file %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := openFiles(t) - before; n > 140 {
		t.Errorf("%d files are open, want about 128", n)
	}
}

func openFiles(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("counting open files needs /proc: ", err)
	}
	return len(entries)
}

func TestOpenBucketNamesTheBadRoot(t *testing.T) {
	dir := t.TempDir()
	for _, root := range []string{dir, "data", "file://" + dir + "/none", "file://host/data", "file:relative", "s3://bucket/x", "file://" + writeFile(t, dir, "file", nil), ":"} {
		b, err := shard.OpenBucket(context.Background(), []string{root}, nil)
		if err == nil || b != nil {
			t.Errorf("root %q: opened", root)
		}
	}
}

// flaky is a remote place whose answers a test decides.
type flaky struct {
	err    error
	closed bool
}

func (f *flaky) ReadRange(_ context.Context, name string, _, size int64) ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	return bytes.Repeat([]byte(name[len(name)-1:]), int(size)), nil
}

func (f *flaky) Close() error { f.closed = true; return nil }

func TestBucketOfRemoteRoots(t *testing.T) {
	wide, narrow := &flaky{}, &flaky{}
	b := must.Get(shard.OpenBucket(context.Background(), []string{"s3://bucket/a?region=x", "s3://bucket/a/b/"},
		func(_ context.Context, root *url.URL) (shard.Objects, error) {
			if root.Path == "/a" && root.RawQuery == "region=x" {
				return wide, nil
			}
			return narrow, nil
		}))(t)
	get := func(uri, want string) error {
		_, err := b.ReadRange(context.Background(), schemas.ImageRef{URI: uri, Size: 2}, schemas.NewImageID([]byte(want)))
		return err
	}
	passing := errors.New("connection reset")
	narrow.err = passing
	for _, c := range []struct {
		uri, content string
		want         error
	}{
		{"s3://bucket/a/x", "xx", nil},
		{"s3://bucket/a/bc", "cc", nil},
		{"s3://bucket/a/b/y", "yy", passing}, // the narrower root answers
		{"s3://bucket/ab", "bb", shard.ErrForbidden},
		{"s3://bucket/a/../secret", "tt", shard.ErrForbidden},
		{"s3://bucket/a//x", "xx", shard.ErrForbidden},
		{"s3://other/a/x", "xx", shard.ErrForbidden},
		{"gs://bucket/a/x", "xx", shard.ErrForbidden},
	} {
		if err := get(c.uri, c.content); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.uri, err, c.want)
		}
	}
	if shard.Permanent(get("s3://bucket/a/b/y", "yy")) {
		t.Error("a lost connection passes for a fault of the image")
	}
	if err := b.Close(); err != nil || !wide.closed || !narrow.closed {
		t.Errorf("closing: %v, closed %v and %v", err, wide.closed, narrow.closed)
	}
}

func TestPermanent(t *testing.T) {
	for _, err := range []error{nil, context.Canceled, os.ErrPermission, syscall.EIO, errors.New("x")} {
		if shard.Permanent(err) {
			t.Errorf("%v passes for permanent", err)
		}
	}
}

// TestBucketGivesUpWhatItMayNotRead tells an object that is kept from us from credentials that have run out: the first
// is given up, the second is waited for.
func TestBucketGivesUpWhatItMayNotRead(t *testing.T) {
	refusal := fmt.Errorf("%w: 403", shard.ErrDenied)
	open := func(t *testing.T) (*flaky, func(name string) error) {
		remote := &flaky{}
		b := must.Get(shard.OpenBucket(t.Context(), []string{"s3://bucket"}, func(context.Context, *url.URL) (shard.Objects, error) { return remote, nil }))(t)
		return remote, func(name string) error {
			_, err := b.ReadRange(t.Context(), schemas.ImageRef{URI: "s3://bucket/" + name, Size: 1}, schemas.NewImageID([]byte(name)))
			return err
		}
	}
	for name, c := range map[string]struct {
		wait      time.Duration
		between   func(remote *flaky, read func(string) error) error // something else that is read meanwhile
		permanent bool
	}{
		"at once":                      {0, nil, false},
		"nothing else was read, early": {shard.DeniedFor - time.Nanosecond, nil, false},
		"nothing else was read, late":  {shard.DeniedFor, nil, true},
		"another object was read": {time.Second, func(remote *flaky, read func(string) error) error {
			remote.err = nil
			err := read("b")
			remote.err = refusal
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				remote, read := open(t)
				remote.err = refusal
				if err := read("a"); err == nil || shard.Permanent(err) {
					t.Fatalf("the first refusal: %v", err)
				}
				if c.between != nil {
					must.Do(t, c.between(remote, read))
				}
				time.Sleep(c.wait)
				err := read("a")
				if err == nil || shard.Permanent(err) != c.permanent {
					t.Errorf("after %v: %v, permanent %v, want %v", c.wait, err, shard.Permanent(err), c.permanent)
				}
				if c.permanent && (!errors.Is(err, shard.ErrDenied) || shard.MaskReason(err) != schemas.MaskForbidden) {
					t.Errorf("reason of %v: %q", err, shard.MaskReason(err))
				}
			})
		})
	}
	t.Run("credentials run out long after an object was refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			remote, read := open(t)
			remote.err = refusal
			_ = read("a") // waits; the cases above
			time.Sleep(time.Hour)
			remote.err = nil
			must.Do(t, read("b"))
			time.Sleep(time.Second)
			remote.err = refusal
			if err := read("c"); err == nil || shard.Permanent(err) {
				t.Errorf("the first refusal after an hour: %v", err)
			}
		})
	})
}

// TestBucketWaitsForALostRoot takes the whole folder away: that is a fault of the bucket, not of every image in it.
func TestBucketWaitsForALostRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	must.Do(t, os.Mkdir(dir, 0o700))
	path := writeFile(t, dir, "a.tar", []byte("x"))
	b := openBucket(t, shard.FileURI(filepath.Dir(path)))
	must.Do(t, os.RemoveAll(dir))
	_, err := b.ReadRange(t.Context(), schemas.ImageRef{URI: shard.FileURI(path), Size: 1}, schemas.NewImageID([]byte("x")))
	if err == nil || shard.Permanent(err) || !strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("error %v, want a passing one that names the root", err)
	}
}

func TestMaskReason(t *testing.T) {
	for want, errs := range map[string][]error{
		schemas.MaskMissing:   {shard.ErrMissing, shard.ErrTruncated},
		schemas.MaskChanged:   {shard.ErrHashMismatch},
		schemas.MaskForbidden: {shard.ErrForbidden, shard.ErrDenied},
		schemas.MaskUnusable:  {imaging.ErrNotImage, imaging.ErrTooLarge},
		"":                    {nil, context.Canceled, syscall.EIO},
	} {
		for _, err := range errs {
			if got := shard.MaskReason(fmt.Errorf("wrapped: %w", err)); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}
