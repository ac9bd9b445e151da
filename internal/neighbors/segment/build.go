package segment

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/schemas"
)

// Group is the input of a segment. The functions take positions.
type Group struct {
	ID     schemas.GroupID
	Model  string
	V, T   knn.Matrix // float16
	List   []int32    // of every member: its cluster
	Words  []string
	Pair   func(int) schemas.PairID
	Image  func(int) schemas.ImageID
	Ref    func(int) schemas.ImageRef
	NounOf func(int) []int32 // indices in Words
}

// Build makes the segment of a group. It has the rows of a list in the order of their positions.
func Build(g Group) (*Segment, error) {
	if err := errors.Join(g.V.Check(), g.T.Check()); err != nil {
		return nil, fmt.Errorf("building the segment of group %s: %w", g.ID, err)
	}
	rows := g.V.Rows
	if g.T.Rows != rows || len(g.List) != rows || rows > mostRows {
		return nil, fmt.Errorf("building the segment of group %s: %d images, %d texts and %d clusters", g.ID, rows, g.T.Rows, len(g.List))
	}
	lists := int(slices.Max(g.List)) + 1
	b := builder{Group: g, order: make([]uint32, rows), until: make([]uint32, lists)}
	b.sort()
	refs := b.refs()
	text, err := json.Marshal(texts{Words: g.Words, Objects: refs.objects})
	if err != nil {
		return nil, err
	}
	b.s = &Segment{header: header{Group: g.ID, Model: g.Model, Dim: g.V.Dim, Rows: rows, Lists: lists}}
	for i := range rows {
		b.s.NounCount += int64(len(g.NounOf(i)))
	}
	if err := b.layOut(len(text)); err != nil {
		return nil, fmt.Errorf("building the segment of group %s: %w", g.ID, err)
	}
	copy(b.s.bytes(strings), text)
	b.s.texts = texts{Words: g.Words, Objects: refs.objects}
	copy(b.s.ends(), b.until)
	b.codes(Image, g.V)
	b.codes(Text, g.T)
	b.columns(refs)
	return b.s, nil
}

type builder struct {
	Group
	s     *Segment
	order []uint32 // position of every row
	until []uint32 // row after the last of every list
}

// sort orders the rows by list, and finds the ends of the lists.
func (b *builder) sort() {
	next := make([]uint32, len(b.until))
	for _, list := range b.List {
		b.until[list]++
	}
	total := uint32(0)
	for i, n := range b.until {
		next[i] = total
		total += n
		b.until[i] = total
	}
	for position, list := range b.List {
		b.order[next[list]] = uint32(position)
		next[list]++
	}
}

// references numbers the objects that hold images, in the order of the rows.
type references struct {
	objects []string
	number  map[string]uint32
}

func (b *builder) refs() *references {
	r := &references{number: make(map[string]uint32)}
	for _, position := range b.order {
		uri := b.Ref(int(position)).URI
		if _, known := r.number[uri]; !known {
			r.number[uri] = uint32(len(r.objects))
			r.objects = append(r.objects, uri)
		}
	}
	return r
}

// layOut reserves the memory of the segment and writes its header.
func (b *builder) layOut(text int) error {
	s := b.s
	s.Sections = make([]section, sections)
	var head []byte
	for room := int64(0); ; { // the header contains offsets, which depend on its length
		at := room
		for i := range s.Sections {
			size := s.size(i)
			if size < 0 {
				size = int64(text)
			}
			s.Sections[i] = section{at, size}
			at = roundUp(at + size)
		}
		var err error
		if head, err = json.Marshal(s.header); err != nil {
			return err
		}
		if need := roundUp(int64(len(magic) + 4 + len(head))); need > room {
			room = need
			continue
		}
		if s.raw, s.close, err = reserve(int(at)); err != nil {
			return fmt.Errorf("reserving %d bytes: %w", at, err)
		}
		break
	}
	copy(s.raw, magic)
	binary.LittleEndian.PutUint32(s.raw[len(magic):], uint32(len(head)))
	copy(s.raw[len(magic)+4:], head)
	return nil
}

func roundUp(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// codes writes the rows of a modality, and the centroids of its lists: means, scaled to norm 1.
func (b *builder) codes(m Modality, x knn.Matrix) {
	dim, row := x.Dim, make([]float32, 0, x.Dim)
	to, centres := b.s.Codes(m), b.s.Centroids(m)
	sum, from := make([]float64, dim), uint32(0)
	for list, end := range b.until {
		clear(sum)
		for at := from; at < end; at++ {
			row = x.Row(int(b.order[at]), row[:0])
			to.Scales[at] = knn.EncodeRow(row, to.Values[int(at)*dim:int(at+1)*dim])
			for j, v := range row {
				sum[j] += float64(v)
			}
		}
		from = end
		centres.Scales[list] = knn.EncodeRow(knn.AppendUnit(row[:0], sum), centres.Values[list*dim:(list+1)*dim])
	}
}

// columns writes the sections without vectors.
func (b *builder) columns(refs *references) {
	s := b.s
	ids, imageIDs := s.bytes(pairs), s.bytes(images)
	all, end := numbers[uint32](s, nouns), numbers[uint32](s, nounEnds)
	used := 0
	for row, position := range b.order {
		at := int(position)
		pair, image, ref := b.Pair(at), b.Image(at), b.Ref(at)
		copy(ids[16*row:], pair[:])
		copy(imageIDs[16*row:], image[:])
		numbers[uint32](s, positions)[row] = position
		numbers[uint32](s, objects)[row] = refs.number[ref.URI]
		numbers[uint64](s, offsets)[row] = uint64(ref.Offset)
		numbers[uint32](s, sizes)[row] = uint32(ref.Size)
		for _, noun := range b.NounOf(at) {
			all[used] = uint32(noun)
			used++
		}
		end[row] = uint32(used)
	}
	order := numbers[uint32](s, byPair)
	for i := range order {
		order[i] = uint32(i)
	}
	sort.Slice(order, func(i, j int) bool {
		return slices.Compare(ids[16*order[i]:16*order[i]+16], ids[16*order[j]:16*order[j]+16]) < 0
	})
}
