// Package imagerefs keeps the image references of a group in little memory, in the order of its members.
//
// References go in one by one and come out by number. A reference takes 16 bytes. An object's address is shared by the
// thousands of images in it. A table that has any copies takes 16 bytes more for each reference.
//
// A Table is not safe for concurrent use while references are added.
package imagerefs

import "github.com/pairstream/pairstream/schemas"

// Table holds references as columns, which encoding/gob can store. The zero value is empty.
type Table struct {
	URIs    []string // of objects
	Offsets []int64
	Places  []int32 // number of the URI and size of each reference, in turn
	Copies  []byte  // 16 bytes a reference: hash of a copy's bytes; empty: there are no copies

	numbers map[string]int32 // of URIs
}

// New makes a table with room for n references.
func New(n int) Table {
	return Table{Offsets: make([]int64, 0, n), Places: make([]int32, 0, 2*n)}
}

// Add takes the next reference.
func (t *Table) Add(r schemas.ImageRef) {
	if t.numbers == nil {
		t.numbers = make(map[string]int32)
	}
	uri, known := t.numbers[r.URI]
	if !known {
		uri = int32(len(t.URIs))
		t.numbers[r.URI] = uri
		t.URIs = append(t.URIs, r.URI)
	}
	if len(t.Copies) == 0 && !r.Copy.IsZero() {
		t.Copies = make([]byte, 16*len(t.Offsets), 16*cap(t.Offsets))
	}
	if t.Copies != nil {
		t.Copies = append(t.Copies, r.Copy[:]...)
	}
	t.Offsets = append(t.Offsets, r.Offset)
	t.Places = append(t.Places, uri, int32(r.Size))
}

// At returns a reference by its number.
func (t *Table) At(i int) schemas.ImageRef {
	r := schemas.ImageRef{URI: t.URIs[t.Places[2*i]], Offset: t.Offsets[i], Size: int64(t.Places[2*i+1])}
	if len(t.Copies) > 0 {
		r.Copy = schemas.ImageID(t.Copies[16*i : 16*i+16])
	}
	return r
}

// Seal frees the memory that only Add needs.
func (t *Table) Seal() { t.numbers = nil }
