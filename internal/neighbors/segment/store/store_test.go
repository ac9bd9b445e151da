package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// of builds the segment of a group of two pairs.
func of(t *testing.T, lane int32, seq int64, model string) *segment.Segment {
	t.Helper()
	half := []uint16{0x3c00, 0, 0, 0x3c00}
	s := must.Get(segment.Build(segment.Group{
		ID: schemas.GroupID{Lane: lane, Seq: seq}, Model: model, V: knn.HalfMatrix(half, 2), T: knn.HalfMatrix(half, 2), List: []int32{0, 0},
		Pair: func(i int) schemas.PairID { return schemas.PairID{1, byte(i)} }, Image: func(i int) schemas.ImageID { return schemas.ImageID{1, byte(i)} },
		Ref: func(int) schemas.ImageRef { return schemas.ImageRef{URI: "file:///a.tar", Size: 1} }, NounOf: func(int) []int32 { return nil },
	}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSegmentsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(Open(t.Context(), "file://"+filepath.ToSlash(dir), "run"))(t)
	other := must.Get(Open(t.Context(), dir, "another"))(t)
	var want []Name
	for _, at := range []struct {
		lane int32
		seq  int64
	}{{1, 2}, {0, 10}, {0, 2}} {
		for range 2 { // the second time changes nothing
			name := must.Get(s.Put(t.Context(), of(t, at.lane, at.seq, "m")))(t)
			want = append(want, name)
		}
	}
	slices.SortFunc(want, Compare)
	want = slices.Compact(want)
	must.Get(s.Put(t.Context(), of(t, 5, 5, "n")))(t)
	must.Get(other.Put(t.Context(), of(t, 6, 6, "m")))(t)
	names, err := s.List(t.Context(), "m")
	if err != nil || !slices.Equal(names, want) || names[0].Lane != 0 || names[2].Seq != 10 {
		t.Fatalf("%v, %v, want %v", names, err, want)
	}
	got, err := s.Get(t.Context(), "m", names[0])
	if err != nil || !bytes.Equal(got.Bytes(), of(t, 0, 2, "m").Bytes()) {
		t.Fatal("another segment came back:", err)
	}
	must.Check(t, got.Close())
	for name, at := range map[string]Name{"another digest": {0, 2, "aa"}, "another group": {9, 9, names[0].Digest}} {
		if _, err := s.Get(t.Context(), "m", at); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var seen []string
	damaged := filepath.Join(dir, s.folderOf("m"), Name{7, 7, "ab"}.file())
	must.Do(t, os.WriteFile(damaged, []byte("no segment"), 0o600))
	bad := 0
	err = s.Each(t.Context(), func(file string) bool { return slices.Contains(seen, file) }, func(file string, one *segment.Segment, err error) {
		if err != nil {
			bad++
			return
		}
		seen = append(seen, file)
		must.Check(t, one.Close())
	})
	if bad != 1 {
		t.Errorf("%d segments cannot be read, want one", bad)
	}
	if err != nil || len(seen) != 4 {
		t.Errorf("%q, %v: want the 4 segments of the namespace", seen, err)
	}
}

// TestDamageIsFound changes a byte of a segment, which its name does not allow.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(Open(t.Context(), dir, ""))(t)
	one := of(t, 0, 0, "m")
	name := must.Get(s.Put(t.Context(), one))(t)
	raw := bytes.Clone(one.Bytes())
	raw[len(raw)-70] ^= 1
	must.Do(t, os.WriteFile(filepath.Join(dir, s.folderOf("m"), name.file()), raw, 0o600))
	if _, err := s.Get(t.Context(), "m", name); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("%v, want that it is no segment", err)
	}
}
