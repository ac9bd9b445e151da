package table

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go/format"
)

// Bounds of the pages of a Parquet file. The library allocates as much as the head of a page announces. A few bytes may
// stand for gigabytes of zeros, or for millions of nulls.
const (
	// maxPages bounds the memory of the pages of a group of rows that are decoded at once: the largest page of each
	// column, and its dictionary.
	maxPages = 512 << 20
	// maxPageHead bounds the head of a page, which may quote texts.
	maxPageHead = 4 << 20
	// valueBytes is the memory of a value of a page besides its bytes.
	valueBytes = 8

	// The number of values in a file, nulls included: a base, and some more for each of its bytes.
	freeValues     = 1 << 26
	valuesOfAByte  = 16
	pageWindow     = 64 << 10
	firstHead      = 1 << 10 // guessed size of a head
	dictionaryPage = 2
)

// Fields of the head of a page. The field of the values is in the head of its kind.
const (
	kindField         = 1
	uncompressedField = 2
	compressedField   = 3
	valuesField       = 1
)

// The fields of a head that hold the head of its kind.
var kindHeads = []int16{5, 7, 8}

var errPages = errors.New("its pages are not where its footer says")

// checkPages refuses a group of rows whose pages take too much memory.
func checkPages(src io.ReaderAt, size int64, group *format.RowGroup) error {
	all, p := int64(0), pages{src: src, size: size}
	for i := range group.Columns {
		m := &group.Columns[i].MetaData
		starts := []int64{m.DataPageOffset}
		if m.DictionaryPageOffset != 0 {
			starts = append(starts, m.DictionaryPageOffset) // the library reads from either
		}
		most := int64(0)
		for _, from := range starts {
			base := starts[len(starts)-1]
			if base < 0 || from < base || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size-base {
				return errPages
			}
			took, err := p.walk(from, base+m.TotalCompressedSize)
			if err != nil {
				return err
			}
			most = max(most, took)
		}
		if all += most; all > maxPages {
			return fmt.Errorf("its pages take more than %d bytes when they are decoded: write smaller ones", maxPages)
		}
	}
	return nil
}

// pages walks over the pages of columns through a window of the file.
type pages struct {
	src    io.ReaderAt
	size   int64
	window []byte
	at     int64 // where the window begins
}

// walk returns the memory of the largest page of a column, and of its dictionaries.
func (p *pages) walk(from, end int64) (int64, error) {
	dictionaries, largest := int64(0), int64(0)
	for at := from; at < end; {
		head, length, err := p.head(at, end)
		if err != nil {
			return 0, err
		}
		compressed, took := head.field(0, compressedField), head.field(0, uncompressedField)
		if compressed < 0 || took < 0 || compressed > end-at-length {
			return 0, errPages
		}
		took += compressed
		for _, kind := range kindHeads {
			values := head.field(kind, valuesField)
			if values < 0 {
				return 0, errPages
			}
			took += valueBytes * values
		}
		if head.field(0, kindField) == dictionaryPage {
			dictionaries += took
		} else {
			largest = max(largest, took)
		}
		if dictionaries > maxPages {
			break // the limit is exceeded
		}
		at += length + compressed
	}
	return dictionaries + largest, nil
}

// head reads the head of a page, and returns its length.
func (p *pages) head(at, end int64) (*footer, int64, error) {
	for room := int64(firstHead); ; room *= 8 {
		want := min(room, end-at)
		if at < p.at || at+want > p.at+int64(len(p.window)) {
			n := min(max(room, pageWindow), p.size-at)
			p.window, p.at = slices.Grow(p.window[:0], int(n))[:n], at
			if _, err := p.src.ReadAt(p.window, at); err != nil && !errors.Is(err, io.EOF) {
				return nil, 0, err
			}
		}
		f := footerOf(p.window[at-p.at:][:want])
		f.numbers = map[[2]int16]int64{}
		err := f.structure(0)
		switch {
		case err == nil:
			return f, int64(f.BytesRead()), nil
		case !errors.Is(err, errFooter) || room > maxPageHead:
			return nil, 0, err
		case want == end-at:
			return nil, 0, errPages
		}
	}
}

// field returns a number of a head, or 0.
func (f *footer) field(parent, id int16) int64 { return f.numbers[[2]int16{parent, id}] }

// mostValues returns the greatest number of values that the rows of a file may have.
func mostValues(size int64) int64 {
	if size > (math.MaxInt64-freeValues)/valuesOfAByte {
		return math.MaxInt64
	}
	return freeValues + valuesOfAByte*size
}
