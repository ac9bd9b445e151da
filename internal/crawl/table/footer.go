package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Bounds of the footer of a Parquet file. The library allocates every list that a footer announces, even without its
// elements.
const (
	maxFooterBytes    = 16 << 20
	maxFooterElements = 1 << 18 // of all lists together
	maxFooterDepth    = 32

	schemaField = 2 // of the footer: the list of columns
)

// checkFooter refuses a footer that announces more than it holds, or too much. It leaves encrypted footers to the
// library.
func checkFooter(src io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < int64(len(tail)) {
		return io.ErrUnexpectedEOF
	}
	if _, err := src.ReadAt(tail[:], size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > maxFooterBytes || n > size-int64(len(tail)) {
		return fmt.Errorf("its footer claims %d bytes, want at most %d and those of the file", n, maxFooterBytes)
	}
	if string(tail[4:]) != "PAR1" {
		return nil // the library refuses it
	}
	f := footer{left: make([]byte, n)}
	if _, err := src.ReadAt(f.left, size-int64(len(tail))-n); err != nil {
		return err
	}
	return f.structure(0)
}

// errFooter means that the bytes are no footer.
var errFooter = errors.New("its footer ends early, or is none")

// footer walks over a footer, or over the head of a page, in Thrift's compact protocol.
type footer struct {
	left     []byte
	elements int

	numbers map[[2]int16]int64 // of the head of a page: by the field that contains them, and their own; nil: not collected
	parent  int16
}

// The types of the compact protocol. A footer has no others.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt64  = 6 // 4 and 5 are shorter integers
	thriftDouble = 7
	thriftBytes  = 8
	thriftList   = 9
	thriftStruct = 12
)

func (f *footer) structure(depth int) error {
	if depth > maxFooterDepth {
		return fmt.Errorf("its footer is nested deeper than %d", maxFooterDepth)
	}
	id := int16(0)
	for {
		head, err := f.take(1)
		if err != nil || head[0] == 0 {
			return err
		}
		if delta := head[0] >> 4; delta > 0 {
			id += int16(delta)
		} else {
			n, err := f.number()
			if err != nil {
				return err
			}
			id = int16(unzigzag(n))
		}
		most := maxFooterElements
		if depth == 0 && id == schemaField {
			most = maxColumns
		}
		if kind := head[0] & 15; kind != thriftTrue && kind != thriftFalse { // whose value is their type
			if err := f.value(kind, id, depth, most); err != nil {
				return err
			}
		}
	}
}

// value walks over the value of a field. most bounds the elements of a list.
func (f *footer) value(kind byte, id int16, depth, most int) (err error) {
	switch {
	case kind == thriftByte:
		_, err = f.take(1)
	case kind > thriftByte && kind <= thriftInt64:
		var n uint64
		if n, err = f.number(); f.numbers != nil && depth < 2 {
			f.numbers[[2]int16{f.parent, id}] = unzigzag(n)
		}
	case kind == thriftDouble:
		_, err = f.take(8)
	case kind == thriftBytes:
		var n uint64
		if n, err = f.number(); err == nil {
			_, err = f.take(n)
		}
	case kind == thriftList:
		return f.list(depth, most)
	case kind == thriftStruct:
		if depth > 0 {
			return f.structure(depth + 1)
		}
		f.parent = id
		err = f.structure(depth + 1)
		f.parent = 0
	default:
		return errFooter
	}
	return err
}

func (f *footer) list(depth, most int) error {
	head, err := f.take(1)
	if err != nil {
		return err
	}
	n, kind := uint64(head[0]>>4), head[0]&15
	if n == 15 {
		if n, err = f.number(); err != nil {
			return err
		}
	}
	if n > uint64(len(f.left)) { // each takes a byte at least
		return errFooter
	}
	if f.elements += int(n); n > uint64(most) || f.elements > maxFooterElements {
		return fmt.Errorf("its footer has a list of %d elements, want at most %d, and %d of all lists", n, most, maxFooterElements)
	}
	if depth >= maxFooterDepth {
		return fmt.Errorf("its footer is nested deeper than %d", maxFooterDepth)
	}
	for range n {
		if err := f.value(kind, 0, depth+1, maxFooterElements); err != nil {
			return err
		}
	}
	return nil
}

func (f *footer) take(n uint64) ([]byte, error) {
	if n > uint64(len(f.left)) {
		return nil, errFooter
	}
	out := f.left[:n]
	f.left = f.left[n:]
	return out, nil
}

func (f *footer) number() (uint64, error) {
	v, n := binary.Uvarint(f.left)
	if n <= 0 {
		return 0, errFooter
	}
	f.left = f.left[n:]
	return v, nil
}
