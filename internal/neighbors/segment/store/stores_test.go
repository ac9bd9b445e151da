//go:build s3

package store

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/testing/gcstest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
)

func TestS3Segments(t *testing.T) {
	server := s3test.Start(t)
	bucket := server.Bucket(t, "crawl")
	segmentsIn(t, "s3://crawl/segments?"+server.Query(), func(name string) {
		must.Do(t, bucket.WriteAll(t.Context(), "segments/"+name, []byte("no segment"), nil))
	})
}

func TestGCSSegments(t *testing.T) {
	bucket := gcstest.Bucket(t, "crawl")
	segmentsIn(t, "gs://crawl/segments", func(name string) {
		must.Do(t, bucket.WriteAll(t.Context(), "segments/"+name, []byte("no segment"), nil))
	})
}

// segmentsIn writes segments of two models and namespaces to a bucket, one of them twice, and damages one. It lists and
// reads the others, of the whole namespace as well.
func segmentsIn(t *testing.T, root string, damage func(name string)) {
	t.Helper()
	s := must.Get(Open(t.Context(), root, "run"))(t)
	defer s.Close()
	other := must.Get(Open(t.Context(), root, "another"))(t)
	defer other.Close()
	for at, where := range []*Store{s, s, s, s, other} {
		must.Get(where.Put(t.Context(), of(t, int32(at%3), int64(at%3), []string{"m", "n"}[at/4])))(t)
	}
	names, err := s.List(t.Context(), "m")
	if err != nil || len(names) != 3 || !slices.IsSortedFunc(names, Compare) {
		t.Fatalf("%v, %v: want three names in their order", names, err)
	}
	damage(s.folderOf("m") + "/" + names[1].file())
	for at, want := range map[int]error{0: nil, 1: segment.ErrInvalid, 2: nil} {
		got, err := s.Get(t.Context(), "m", names[at])
		if !errors.Is(err, want) {
			t.Errorf("segment %d: %v, want %v", at, err, want)
		}
		if err != nil {
			continue
		}
		if n := int32(names[at].Lane); !bytes.Equal(got.Bytes(), of(t, n, int64(n), "m").Bytes()) {
			t.Errorf("segment %d has other bytes", at)
		}
		must.Check(t, got.Close())
	}
	if _, err := s.Get(t.Context(), "n", names[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a segment of another model: %v", err)
	}
	var groups []int64
	bad := 0
	err = s.Each(t.Context(), func(string) bool { return false }, func(_ string, one *segment.Segment, err error) {
		if err != nil {
			bad++
			return
		}
		groups = append(groups, one.Group.Seq)
		must.Check(t, one.Close())
	})
	if err != nil || bad != 1 || !slices.Equal(groups, []int64{0, 2}) {
		t.Errorf("groups %v and %d that cannot be read, %v: want 0 and 2, and one", groups, bad, err)
	}
}
