//go:build cgo

package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// drawn is a group that is drawn.
type drawn struct {
	Group
	v, t []float32
}

// draw makes a group of n pairs of a crawl, in lists by k-means.
func draw(t *testing.T, crawl *knntest.Crawl, seq int64, n, dim, lists int) *drawn {
	t.Helper()
	d := &drawn{}
	var v, x schemas.Float16s
	for range n {
		image, text := crawl.Next()
		v, x = append(v, schemas.NewFloat16s(image)...), append(x, schemas.NewFloat16s(text)...)
	}
	d.v, d.t = v.Floats(), x.Floats()
	init := make([]int32, lists)
	for i := range init {
		init[i] = int32(i * n / lists)
	}
	clusters := must.Get(cpu.Engine{}.KMeans(t.Context(), knn.FloatMatrix(d.v, dim), knn.KMeansParams{Init: init, Iterations: 5}))(t)
	d.Group = Group{
		ID: schemas.GroupID{Lane: 2, Seq: seq}, Model: "m", V: knn.HalfMatrix(halves(v), dim), T: knn.HalfMatrix(halves(x), dim), List: clusters.Assign,
		Words: []string{"dog", "cat"},
		Pair: func(i int) (id schemas.PairID) {
			binary.LittleEndian.PutUint64(id[:], uint64(i)*0x9e3779b97f4a7c15+uint64(seq)+1)
			return id
		},
		Image: func(i int) (id schemas.ImageID) {
			binary.LittleEndian.PutUint64(id[:], uint64(i)+uint64(seq)<<32+1)
			return id
		},
		Ref: func(i int) schemas.ImageRef {
			return schemas.ImageRef{URI: fmt.Sprintf("file:///%d.tar", i/100), Offset: int64(i) << 33, Size: int64(i + 1)}
		},
		NounOf: func(i int) []int32 { return []int32{0, 1}[:i%3%2+i%2%2] },
	}
	return d
}

func halves(raw schemas.Float16s) []uint16 {
	out := make([]uint16, raw.Len())
	for i := range out {
		out[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return out
}

func build(t *testing.T, d *drawn) *Segment {
	t.Helper()
	s := must.Get(Build(d.Group))(t)
	t.Cleanup(func() { must.Check(t, s.Close()) })
	return s
}

// TestASegmentHoldsItsGroup looks every member up, in the segment that was built and in its bytes.
func TestASegmentHoldsItsGroup(t *testing.T) {
	const n, dim = 300, 24
	d := draw(t, knntest.New(rng.New(1, "segment"), 4, 3, dim), 7, n, dim, 9)
	built := build(t, d)
	parsed := must.Get(Parse(bytes.Clone(built.Bytes())))(t)
	again := build(t, d)
	if !bytes.Equal(again.Bytes(), built.Bytes()) || again.Digest() != built.Digest() {
		t.Error("two segments of one group differ")
	}
	for _, s := range []*Segment{built, parsed} {
		if s.Rows != n || s.Dim != dim || s.Model != "m" || s.Group != d.ID {
			t.Fatalf("%+v", s.header)
		}
		for i := range n {
			row, found := s.Find(d.Pair(i))
			if !found || s.Position(row) != i || s.Pair(row) != d.Pair(i) || s.ImageID(row) != d.Image(i) {
				t.Fatalf("pair %d is in row %d (%t), which is that of %d", i, row, found, s.Position(row))
			}
			if ref, ok := s.Ref(row); !ok || ref != d.Ref(i) {
				t.Fatalf("image %d is at %+v, want %+v", i, ref, d.Ref(i))
			}
			var words []int32
			for _, noun := range s.Nouns(row) {
				words = append(words, int32(noun))
			}
			if !slices.Equal(words, d.NounOf(i)) {
				t.Fatalf("pair %d has nouns %v, want %v", i, words, d.NounOf(i))
			}
			got := s.Codes(Text).Row(row, nil)
			if score := knn.Score(got, d.t[i*dim:(i+1)*dim]); score < 0.99 || score > 1.01 {
				t.Fatalf("the text of pair %d has a product of %g with itself", i, score)
			}
			if from, to := s.List(int(d.List[i])); row < from || row >= to {
				t.Fatalf("pair %d of list %d is in row %d", i, d.List[i], row)
			}
		}
		if _, found := s.Find(schemas.PairID{9}); found {
			t.Error("a stranger is found")
		}
	}
}

func FuzzParse(f *testing.F) {
	d := &drawn{}
	half := []uint16{0x3c00, 0, 0, 0x3c00, 0, 0x3c00}
	d.Group = Group{
		V: knn.HalfMatrix(half, 2), T: knn.HalfMatrix(half, 2), List: []int32{1, 0, 1}, Words: []string{"dog"},
		Pair: func(i int) schemas.PairID { return schemas.PairID{byte(3 - i)} }, Image: func(i int) schemas.ImageID { return schemas.ImageID{byte(i)} },
		Ref: func(int) schemas.ImageRef { return schemas.ImageRef{URI: "file:///a.tar", Size: 1} }, NounOf: func(int) []int32 { return []int32{0} },
	}
	s := must.Get(Build(d.Group))(f)
	f.Add(bytes.Clone(s.Bytes()))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Parse(raw)
		if err != nil {
			if s != nil || !errors.Is(err, ErrInvalid) {
				t.Errorf("%v, %v", s, err)
			}
			return
		}
		for row := range s.Rows {
			_, _ = s.Ref(row)
			_, _ = s.Find(s.Pair(row))
			_ = s.Nouns(row)
			_ = s.Position(row)
		}
		if _, err := NewIndex(reference.Engine{}, s).Search(t.Context(), Image, NewQueries(1, s.Dim, s.Codes(Text).Row), 2, 1, nil); err != nil {
			t.Error(err)
		}
	})
}
