// Package float16rows keeps growing matrices of float16 rows outside the Go heap.
//
// A group of a million pairs holds a gigabyte of vectors. On the Go heap the collector would let as much garbage
// accumulate before it runs, and growing by append would copy them. Here a matrix is one reservation of address space.
// A page is allocated when a row is written, and returned to the system when the last reference is released.
//
// Guarantees:
//
//  1. A row is written once and never moves. Rows [0, Len()) may be read without a lock while others are appended.
//  2. References own the memory: New gives one, Retain adds one, Release gives one up, and the last Release returns
//     the memory. Reading without a reference is a bug that ends the program.
//
// One goroutine appends; any number read. The bytes are little-endian, and so must the machine be.
package float16rows

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

var live atomic.Int64

// Live returns the number of matrices whose memory was not yet returned. Tests check that they return all of it.
func Live() int64 { return live.Load() }

// Rows is a matrix of float16 rows that grows up to its capacity.
type Rows struct {
	mem      []byte
	dim      int
	capacity int
	n        atomic.Int64
	refs     atomic.Int64
}

// New reserves room for capacity rows of dim values.
func New(capacity, dim int) (*Rows, error) {
	if capacity <= 0 || dim <= 0 {
		return nil, fmt.Errorf("reserving %d rows of %d values: want positive numbers", capacity, dim)
	}
	mem, err := reserve(capacity * dim * 2)
	if err != nil {
		return nil, fmt.Errorf("reserving address space for %d rows of %d float16: %w", capacity, dim, err)
	}
	r := &Rows{mem: mem, dim: dim, capacity: capacity}
	r.refs.Store(1)
	live.Add(1)
	return r, nil
}

// Append adds one row, given as little-endian float16 bytes.
func (r *Rows) Append(row []byte) error {
	n := int(r.n.Load())
	if len(row) != 2*r.dim {
		return fmt.Errorf("appending row %d: %d bytes, want %d", n, len(row), 2*r.dim)
	}
	if n == r.capacity {
		return fmt.Errorf("appending row %d: the matrix is full", n)
	}
	copy(r.mem[2*n*r.dim:], row)
	r.n.Store(int64(n + 1)) // publishes the bytes to readers of Len
	return nil
}

// AppendFrom adds row i of another matrix of the same width.
func (r *Rows) AppendFrom(other *Rows, i int) error {
	if i < 0 || i >= other.Len() {
		return fmt.Errorf("copying row %d of %d", i, other.Len())
	}
	return r.Append(other.mem[2*i*other.dim : 2*(i+1)*other.dim])
}

// Len returns the number of rows.
func (r *Rows) Len() int { return int(r.n.Load()) }

// Dim returns the number of values of a row.
func (r *Rows) Dim() int { return r.dim }

// Values returns the bits of the first n rows, row by row, without copying.
func (r *Rows) Values(n int) []uint16 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(unsafe.Pointer(&r.mem[0])), r.capacity*r.dim)[: n*r.dim : n*r.dim]
}

// Retain adds a reference. The caller must hold another one meanwhile.
func (r *Rows) Retain() *Rows {
	r.refs.Add(1)
	return r
}

// Release gives up one reference; the last one returns the memory.
func (r *Rows) Release() error {
	switch refs := r.refs.Add(-1); {
	case refs > 0:
		return nil
	case refs < 0:
		panic("float16rows: released more often than retained")
	}
	live.Add(-1)
	mem := r.mem
	r.mem = nil
	if err := giveBack(mem); err != nil {
		return fmt.Errorf("returning %d bytes of address space: %w", len(mem), err)
	}
	return nil
}
