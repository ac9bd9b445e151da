//go:build s3

package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/testing/gcstest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/schemas"
)

// crawl returns a tar of n images of random bytes; every third has a large film beside it, which is no part of a pair.
func crawl(t *testing.T, seed uint64, n, film int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	var buf bytes.Buffer
	w := shard.NewWriter(&buf)
	for i := range n {
		files := []shard.File{{Ext: "jpg", Data: random(1 + r.IntN(60_000))}, {Ext: "txt", Data: fmt.Appendf(nil, "picture %d of %d", i, seed)}}
		if film > 0 && i%3 == 0 {
			files = append(files, shard.File{Ext: "mp4", Data: make([]byte, film)})
		}
		must.Get(w.Write(fmt.Sprintf("%05d", i), files...))(t)
	}
	must.Do(t, w.Close())
	return buf.Bytes()
}

// scan returns what a scan finds, a line for every example and problem, without the places of the tars.
func scan(t *testing.T, at string, path string) (lines []string) {
	t.Helper()
	_, err := shard.Scan(t.Context(), []string{path}, shard.Visitor{
		Example: func(ex shard.Example) error {
			name, below := strings.CutPrefix(ex.Image.URI, at)
			if !below || ex.ImageID != schemas.NewImageID(ex.Encoded) {
				t.Errorf("an example of %s: %s", path, ex.Image.URI)
			}
			lines = append(lines, fmt.Sprint(name, ex.Key, ex.ImageID, ex.Image.Offset, ex.Image.Size, ex.Captions))
			return nil
		},
		Problem: func(p shard.Problem) error {
			lines = append(lines, fmt.Sprint(strings.TrimPrefix(p.URI, at), p.Offset, p.Reason))
			return nil
		},
	})
	if err != nil {
		t.Fatalf("scanning %s: %v", path, err)
	}
	return lines
}

// store is a bucket called crawl of a server.
type store struct {
	scheme string
	bucket *blob.Bucket
	url    func(path string) string
}

func s3(t *testing.T) store {
	t.Helper()
	server := s3test.Start(t)
	return store{"s3", server.Bucket(t, "crawl"), server.URL}
}

func gcs(t *testing.T) store {
	t.Helper()
	return store{"gs", gcstest.Bucket(t, "crawl"), func(path string) string { return "gs://" + path }}
}

// TestS3ScanIsThatOfFiles: tars in a bucket give what the same tars give on a disk, and images are read by the
// references.
func TestS3ScanIsThatOfFiles(t *testing.T) { scanIsThatOfFiles(t, s3(t)) }

// TestGCSScanIsThatOfFiles does the same on an emulator of Google Cloud Storage.
func TestGCSScanIsThatOfFiles(t *testing.T) { scanIsThatOfFiles(t, gcs(t)) }

func scanIsThatOfFiles(t *testing.T, server store) {
	bucket := server.bucket
	dir := t.TempDir()
	whole := crawl(t, 7, 300, 0)
	for name, raw := range map[string][]byte{
		"a.tar": crawl(t, 1, 400, 0), "deep/b b.tar": crawl(t, 2, 20, 9<<20), "cut.TAR": whole[:len(whole)/2], "z.tar": crawl(t, 3, 1, 0),
		"notes.txt": []byte("no tar"),
	} {
		must.Do(t, errors.Join(
			os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), raw, 0o600),
			bucket.WriteAll(t.Context(), "2026/"+name, raw, nil),
		))
	}
	want := scan(t, shard.FileURI(dir), dir)
	url := server.url("crawl/2026/")
	if got := scan(t, server.scheme+"://crawl/2026", url); !slices.Equal(got, want) || len(want) < 570 {
		t.Errorf("%d lines from the bucket, %d from the disk", len(got), len(want))
	}
	if got := scan(t, server.scheme+"://crawl/2026", server.url("crawl/2026/z.tar")); len(got) != 1 {
		t.Errorf("one tar by its name: %q", got)
	}
	roots := must.Get(shard.Roots([]string{url}))(t)
	images := must.Get(shard.OpenBucket(t.Context(), roots, nil))(t)
	defer images.Close()
	totals, err := shard.Scan(t.Context(), []string{server.url("crawl/2026/z.tar")}, shard.Visitor{Example: func(ex shard.Example) error {
		_, err := images.ReadRange(t.Context(), ex.Image, ex.ImageID)
		return err
	}})
	if err != nil || totals.Examples != 1 {
		t.Errorf("reading by reference: %+v, %v", totals, err)
	}
}

// TestS3ObjectThatChanges: a tar that is replaced while it is read ends the scan, and gives no record of the new one.
func TestS3ObjectThatChanges(t *testing.T) { objectThatChanges(t, s3(t)) }

// TestGCSObjectThatChanges does the same on an emulator of Google Cloud Storage.
func TestGCSObjectThatChanges(t *testing.T) { objectThatChanges(t, gcs(t)) }

func objectThatChanges(t *testing.T, server store) {
	bucket := server.bucket
	before, after := crawl(t, 1, 700, 0), crawl(t, 2, 700, 0)
	must.Do(t, bucket.WriteAll(t.Context(), "a.tar", before, nil))
	seen := 0
	_, err := shard.Scan(t.Context(), []string{server.url("crawl")}, shard.Visitor{Example: func(ex shard.Example) error {
		if seen++; seen == 1 {
			return bucket.WriteAll(t.Context(), "a.tar", after, nil)
		}
		if !strings.HasSuffix(ex.Captions[0], "of 1") {
			t.Errorf("caption %q is of the other tar", ex.Captions[0])
		}
		return nil
	}, Problem: func(p shard.Problem) error { t.Errorf("problem %v", p); return nil }})
	if !errors.Is(err, shard.ErrChanged) || seen >= 700 {
		t.Errorf("after %d examples: %v", seen, err)
	}
}

func TestS3FindSaysWhatIsWrong(t *testing.T) { findSaysWhatIsWrong(t, s3(t)) }

func TestGCSFindSaysWhatIsWrong(t *testing.T) { findSaysWhatIsWrong(t, gcs(t)) }

func findSaysWhatIsWrong(t *testing.T, server store) {
	must.Do(t, server.bucket.WriteAll(t.Context(), "notes.txt", []byte("x"), nil))
	for place, want := range map[string]error{"crawl/none.tar": shard.ErrMissing, "crawl/": shard.ErrNoTars, "nobucket/": nil} {
		_, err := shard.Find(t.Context(), []string{server.url(place)}, nil)
		if err == nil || !strings.Contains(err.Error(), place) || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// TestS3ServerGoesAway: a store that does not answer ends the scan with an error, and sets nothing aside.
func TestS3ServerGoesAway(t *testing.T) {
	server := s3test.Start(t)
	must.Do(t, server.Bucket(t, "crawl").WriteAll(t.Context(), "a.tar", crawl(t, 1, 700, 0), nil))
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	seen := 0
	_, err := shard.Scan(context.Background(), []string{server.URL("crawl")}, shard.Visitor{Example: func(shard.Example) error {
		if seen++; seen == 1 {
			server.Stop(t)
		}
		return nil
	}, Problem: func(p shard.Problem) error { t.Errorf("problem %v", p); return nil }})
	if err == nil || !strings.Contains(err.Error(), "a.tar") || shard.Permanent(err) {
		t.Errorf("error %v", err)
	}
}

// TestS3StoresStayOpen: a bucket that is kept open is asked once whether it exists, and is opened anew after Close.
func TestS3StoresStayOpen(t *testing.T) {
	server := s3(t)
	for _, name := range []string{"a/1.tar", "b/2.tar"} {
		must.Do(t, server.bucket.WriteAll(t.Context(), name, crawl(t, 1, 2, 0), nil))
	}
	var stores cloud.Stores
	for range 2 {
		found, err := shard.Find(t.Context(), []string{server.url("crawl/b/2.tar"), server.url("crawl/a/")}, stores.Open)
		if err != nil || len(found.Tars) != 2 || found.Tars[0].URI != "s3://crawl/b/2.tar" || found.Tars[1].URI != "s3://crawl/a/1.tar" {
			t.Fatalf("%+v, %v", found, err)
		}
		if err := found.Close(); err != nil { // closes no store
			t.Fatal(err)
		}
	}
	must.Do(t, stores.Close())
	if _, err := shard.Find(t.Context(), []string{server.url("crawl/")}, stores.Open); err != nil {
		t.Errorf("after Close: %v", err)
	}
	must.Do(t, stores.Close())
}
