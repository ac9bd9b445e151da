package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
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
	raw := make([]byte, n)
	if _, err := src.ReadAt(raw, size-int64(len(tail))-n); err != nil {
		return err
	}
	return footerOf(raw).structure(0)
}

// errFooter means that the bytes are no footer.
var errFooter = errors.New("its footer ends early, or is none")

// footer walks over a footer, or over the head of a page, with the library's reader of Thrift's compact protocol.
type footer struct {
	thrift.BytesReader
	size     int // in bytes
	elements int

	numbers map[[2]int16]int64 // of the head of a page: by the field that contains them, and their own; nil: not collected
	parent  int16
}

func footerOf(raw []byte) *footer {
	return &footer{BytesReader: new(thrift.CompactProtocol).NewReaderFromBytes(raw), size: len(raw)}
}

func (f *footer) structure(depth int) error {
	if depth > maxFooterDepth {
		return fmt.Errorf("its footer is nested deeper than %d", maxFooterDepth)
	}
	id := int16(0)
	for {
		field, err := f.ReadField()
		switch {
		case err != nil:
			return errFooter
		case field == (thrift.Field{}): // the end
			return nil
		case field.Delta:
			id += field.ID
		default:
			id = field.ID
		}
		most := maxFooterElements
		if depth == 0 && id == schemaField {
			most = maxColumns
		}
		if field.Type != thrift.TRUE && field.Type != thrift.FALSE { // whose value is their type
			if err := f.value(field.Type, id, depth, most); err != nil {
				return err
			}
		}
	}
}

// value walks over the value of a field. most bounds the elements of a list.
func (f *footer) value(kind thrift.Type, id int16, depth, most int) (err error) {
	switch kind {
	case thrift.I8:
		_, err = f.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		var n int64
		if n, err = f.ReadInt64(); f.numbers != nil && depth < 2 {
			f.numbers[[2]int16{f.parent, id}] = n
		}
	case thrift.DOUBLE:
		_, err = f.ReadFloat64()
	case thrift.BINARY:
		_, err = f.ReadBytes()
	case thrift.LIST:
		return f.list(depth, most)
	case thrift.STRUCT:
		if depth > 0 {
			return f.structure(depth + 1)
		}
		f.parent = id
		defer func() { f.parent = 0 }()
		return f.structure(depth + 1)
	default: // a footer has no others
		return errFooter
	}
	if err != nil {
		return errFooter
	}
	return nil
}

func (f *footer) list(depth, most int) error {
	head, err := f.ReadList()
	n := int(head.Size)
	if err != nil || n > f.size-f.BytesRead() { // each takes a byte at least
		return errFooter
	}
	if f.elements += n; n > most || f.elements > maxFooterElements {
		return fmt.Errorf("its footer has a list of %d elements, want at most %d, and %d of all lists", n, most, maxFooterElements)
	}
	if depth >= maxFooterDepth {
		return fmt.Errorf("its footer is nested deeper than %d", maxFooterDepth)
	}
	for range n {
		if err := f.value(head.Type, 0, depth+1, maxFooterElements); err != nil {
			return err
		}
	}
	return nil
}
