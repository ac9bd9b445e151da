package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"unsafe"

	"github.com/pairstream/pairstream/internal/neighbors/filemap"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/schemas"
)

// ErrInvalid marks bytes that are no segment.
var ErrInvalid = errors.New("no segment")

// Modality selects vectors of the pairs.
type Modality int

// The modalities.
const (
	Image Modality = iota
	Text
	modalities
)

const (
	magic     = "pairseg1"
	alignment = 64
	mostRows  = 100_000_000
	mostHead  = 1 << 20
)

// The sections of a file, in order. Those of a modality come once for each.
const (
	ends       = iota          // lists x uint32: row after the last of every list
	centroids                  // modalities x lists x dim int8
	centreSize = centroids + 2 // modalities x lists x float32: scales of centroids
	codes      = centreSize + 2
	scales     = codes + 2
	pairs      = scales + 2 // rows x 16 bytes
	byPair     = pairs + 1  // rows x uint32: rows in the order of their pairs' ids
	positions  = byPair + 1 // rows x uint32: positions in the group
	images     = positions + 1
	objects    = images + 1  // rows x uint32: number of the object that holds the image
	offsets    = objects + 1 // rows x uint64: of the image in the object
	sizes      = offsets + 1 // rows x uint32: bytes of the image
	nounEnds   = sizes + 1   // rows x uint32: end of a row's nouns
	nouns      = nounEnds + 1
	strings    = nouns + 1 // JSON: words, and addresses of objects
	sections   = strings + 1
)

type section struct{ Offset, Size int64 }

// header is the header of a segment.
type header struct {
	Group     schemas.GroupID
	Model     string
	Dim       int
	Rows      int
	Lists     int
	NounCount int64 // of all rows
	Sections  []section
}

// size returns the number of bytes of a section; -1: any.
func (h *header) size(s int) int64 {
	rows, lists, dim := int64(h.Rows), int64(h.Lists), int64(h.Dim)
	switch {
	case s == strings:
		return -1
	case s == ends, s >= centreSize && s < codes:
		return 4 * lists
	case s >= centroids && s < centreSize:
		return lists * dim
	case s >= codes && s < scales:
		return rows * dim
	case s == pairs, s == images:
		return 16 * rows
	case s == offsets:
		return 8 * rows
	case s == nouns:
		return 4 * h.NounCount
	}
	return 4 * rows
}

// texts holds the words and addresses that rows refer to by number.
type texts struct {
	Words   []string
	Objects []string
}

// Segment is a closed group.
type Segment struct {
	header
	texts
	raw   []byte
	file  *filemap.Mapping // nil: the bytes are not from a file
	close func() error
}

// Parse reads a segment from its bytes, which must not change.
func Parse(raw []byte) (*Segment, error) {
	s := &Segment{raw: raw, close: func() error { return nil }}
	if len(raw) < len(magic)+4 || string(raw[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: want %q at the beginning", ErrInvalid, magic)
	}
	n := int64(binary.LittleEndian.Uint32(raw[len(magic):]))
	if n > mostHead || n > int64(len(raw)-len(magic)-4) {
		return nil, fmt.Errorf("%w: a header of %d bytes in %d", ErrInvalid, n, len(raw))
	}
	if err := json.Unmarshal(raw[len(magic)+4:][:n], &s.header); err != nil {
		return nil, fmt.Errorf("%w: reading the header: %w", ErrInvalid, err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(s.bytes(strings), &s.texts); err != nil {
		return nil, fmt.Errorf("%w: reading words and addresses: %w", ErrInvalid, err)
	}
	return s, nil
}

// Map maps a file that holds a segment. The file may be closed afterwards.
func Map(file *os.File) (*Segment, error) {
	mapped, err := filemap.Map(file)
	if err != nil {
		return nil, err
	}
	s, err := Parse(mapped.Bytes())
	if err == nil {
		s.file, s.close = mapped, mapped.Close
		err = s.Err()
	}
	if err != nil {
		return nil, errors.Join(err, mapped.Close())
	}
	return s, nil
}

// Err returns an error that wraps [ErrInvalid] if the file was truncated while mapped: data read since then may be
// zeros. Call it before using results of a segment.
func (s *Segment) Err() error {
	if s.file == nil || s.file.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w any more, that of group %s: %w", ErrInvalid, s.Group, s.file.Err())
}

// check compares the sections with the header, and the lists with the rows.
func (s *Segment) check() error {
	if s.Rows < 1 || s.Rows > mostRows || s.Dim < 1 || s.Dim > schemas.MaxDim || s.Lists < 1 || s.Lists > s.Rows || s.NounCount < 0 || s.NounCount > math.MaxUint32 ||
		s.Group.Lane < 0 || s.Group.Seq < 0 || len(s.Sections) != sections {
		return fmt.Errorf("%w: %d rows of %d values in %d lists and %d sections", ErrInvalid, s.Rows, s.Dim, s.Lists, len(s.Sections))
	}
	for i, at := range s.Sections {
		want := s.size(i)
		if want >= 0 && at.Size != want || at.Offset < 0 || at.Offset%alignment != 0 || at.Size < 0 || at.Offset > int64(len(s.raw)) || at.Size > int64(len(s.raw))-at.Offset {
			return fmt.Errorf("%w: section %d has %d bytes at %d of %d, want %d", ErrInvalid, i, at.Size, at.Offset, len(s.raw), want)
		}
	}
	last := uint32(0)
	for _, end := range s.ends() {
		if end < last || int(end) > s.Rows {
			return fmt.Errorf("%w: a list ends at row %d, the one before at %d of %d", ErrInvalid, end, last, s.Rows)
		}
		last = end
	}
	if int(last) != s.Rows {
		return fmt.Errorf("%w: lists hold %d of %d rows", ErrInvalid, last, s.Rows)
	}
	return nil
}

func (s *Segment) bytes(i int) []byte {
	at := s.Sections[i]
	return s.raw[at.Offset : at.Offset+at.Size]
}

// numbers returns a section as numbers. Sections are aligned.
func numbers[T int8 | uint32 | uint64 | float32](s *Segment, i int) []T {
	raw := s.bytes(i)
	if len(raw) == 0 {
		return nil
	}
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/int(unsafe.Sizeof(one)))
}

func (s *Segment) ends() []uint32 { return numbers[uint32](s, ends) }

// List returns the rows [from, to) of a list.
func (s *Segment) List(i int) (from, to int) {
	all := s.ends()
	if i > 0 {
		from = int(all[i-1])
	}
	return from, int(all[i])
}

// Codes returns the rows of a modality.
func (s *Segment) Codes(m Modality) knn.Codes {
	return knn.Codes{Values: numbers[int8](s, codes+int(m)), Scales: numbers[float32](s, scales+int(m)), Dim: s.Dim}
}

// Centroids returns the centroids of a modality's lists.
func (s *Segment) Centroids(m Modality) knn.Codes {
	return knn.Codes{Values: numbers[int8](s, centroids+int(m)), Scales: numbers[float32](s, centreSize+int(m)), Dim: s.Dim}
}

// Pair returns the id of a row's pair.
func (s *Segment) Pair(row int) schemas.PairID {
	return schemas.PairID(s.bytes(pairs)[16*row : 16*row+16])
}

// ImageID returns the id of a row's image.
func (s *Segment) ImageID(row int) schemas.ImageID {
	return schemas.ImageID(s.bytes(images)[16*row : 16*row+16])
}

// Position returns a row's position in the group.
func (s *Segment) Position(row int) int { return int(numbers[uint32](s, positions)[row]) }

// Ref returns the reference of a row's image; false in a damaged segment.
func (s *Segment) Ref(row int) (schemas.ImageRef, bool) {
	object := numbers[uint32](s, objects)[row]
	if int64(object) >= int64(len(s.Objects)) {
		return schemas.ImageRef{}, false
	}
	return schemas.ImageRef{
		URI: s.Objects[object], Offset: int64(numbers[uint64](s, offsets)[row]), Size: int64(numbers[uint32](s, sizes)[row]),
	}, true
}

// Nouns returns the nouns of a row's caption, as indices in Words.
func (s *Segment) Nouns(row int) []uint32 {
	all, end := numbers[uint32](s, nouns), numbers[uint32](s, nounEnds)
	from := uint32(0)
	if row > 0 {
		from = end[row-1]
	}
	if from > end[row] || int64(end[row]) > int64(len(all)) {
		return nil
	}
	return all[from:end[row]]
}

// Find returns the row of a pair.
func (s *Segment) Find(pair schemas.PairID) (row int, found bool) {
	order := numbers[uint32](s, byPair)
	at := sort.Search(len(order), func(i int) bool {
		return int(order[i]) >= s.Rows || slices.Compare(s.bytes(pairs)[16*order[i]:16*order[i]+16], pair[:]) >= 0
	})
	if at == len(order) || int(order[at]) >= s.Rows || s.Pair(int(order[at])) != pair {
		return 0, false
	}
	return int(order[at]), true
}

// Bytes returns the bytes of the segment's file.
func (s *Segment) Bytes() []byte { return s.raw }

// Digest returns half of the SHA-256 over the bytes, in hexadecimal digits.
func (s *Segment) Digest() string {
	sum := sha256.Sum256(s.raw)
	return hex.EncodeToString(sum[:16])
}

// Close frees the memory.
func (s *Segment) Close() error {
	s.raw = nil
	return s.close()
}
