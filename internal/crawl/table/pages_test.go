package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// pageHead returns the head of a page, with so many values in the head of its kind, which stands in a field.
func pageHead(kind, uncompressed, compressed int64, field byte, values int64) []byte {
	return slices.Concat([]byte{0x15}, binary.AppendVarint(nil, kind), []byte{0x15}, binary.AppendVarint(nil, uncompressed), []byte{0x15}, binary.AppendVarint(nil, compressed),
		[]byte{(field-3)<<4 | 0xc, 0x15}, binary.AppendVarint(nil, values), []byte{0, 0})
}

// TestPagesThatClaimTooMuch has groups of rows of a few bytes whose pages stand for much.
func TestPagesThatClaimTooMuch(t *testing.T) {
	data := func(bytes, values int64) []byte { return pageHead(0, bytes, 0, 5, values) }
	const half = maxPages / 2
	for name, c := range map[string]struct {
		columns [][]byte
		wrong   string
	}{
		"as much as may be":          {[][]byte{data(half, 0), data(half, 0)}, ""},
		"a byte more":                {[][]byte{data(half, 0), data(half+1, 0)}, "take more than"},
		"2 GiB":                      {[][]byte{data(math.MaxInt32, 1)}, "take more than"},
		"one page behind another":    {[][]byte{slices.Concat(data(half, 0), data(half, 0), data(half, 0))}, ""},
		"values":                     {[][]byte{data(0, maxPages/valueBytes)}, ""},
		"a value more":               {[][]byte{data(0, maxPages/valueBytes+1)}, "take more than"},
		"values of the second kind":  {[][]byte{pageHead(3, 0, 0, 8, maxPages/valueBytes+1)}, "take more than"},
		"dictionaries":               {[][]byte{slices.Concat(pageHead(2, half, 0, 7, 0), pageHead(2, half, 0, 7, 0), data(1, 0))}, "take more than"},
		"fewer than none":            {[][]byte{data(-1, 0)}, "not where"},
		"fewer values than none":     {[][]byte{data(0, -1)}, "not where"},
		"a page that is not there":   {[][]byte{pageHead(0, 10, 10, 5, 1)}, "not where"},
		"no head":                    {[][]byte{{0x55, 0x55}}, "not where"},
		"half a head":                {[][]byte{data(1, 1)[:5]}, "not where"},
		"a head with a list of much": {[][]byte{{0x19, 0xfc, 0xff, 0xff, 0xff, 0x0f}}, "not where"},
	} {
		var file []byte
		group := new(format.RowGroup)
		for _, column := range c.columns {
			group.Columns = append(group.Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{DataPageOffset: int64(len(file)), TotalCompressedSize: int64(len(column))}})
			file = append(file, column...)
		}
		err := checkPages(bytes.NewReader(file), int64(len(file)), group)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
	for name, m := range map[string]format.ColumnMetaData{
		"before the file":         {DataPageOffset: -1, TotalCompressedSize: 1},
		"behind the file":         {DataPageOffset: 5, TotalCompressedSize: 6},
		"data before a column":    {DataPageOffset: 1, DictionaryPageOffset: 2, TotalCompressedSize: 1},
		"less than nothing":       {TotalCompressedSize: -1},
		"data in a head":          {DataPageOffset: 3, DictionaryPageOffset: 1, TotalCompressedSize: 9},
		"more than there can be":  {DataPageOffset: 1, TotalCompressedSize: math.MaxInt64},
		"an offset of everything": {DataPageOffset: math.MaxInt64, TotalCompressedSize: 1},
	} {
		if err := checkPages(bytes.NewReader(make([]byte, 10)), 10, &format.RowGroup{Columns: []format.ColumnChunk{{MetaData: m}}}); name != "data in a head" && !errors.Is(err, errPages) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBombOfParquet reads a file whose page claims 2 GiB. It is refused before the page is decoded.
func TestBombOfParquet(t *testing.T) {
	type row struct {
		Text  string    `parquet:"text"`
		Image []float32 `parquet:"v,list"`
		Words []float32 `parquet:"w,list"`
	}
	var good, bomb bytes.Buffer
	must.Do(t, parquet.Write(&good, []row{{"a", []float32{1}, []float32{1}}}))
	file := must.Get(parquet.OpenFile(bytes.NewReader(good.Bytes()), int64(good.Len())))(t)
	meta, head := file.Metadata(), pageHead(0, math.MaxInt32, 0, 5, 1)
	columns := meta.RowGroups[0].Columns
	column := &columns[slices.IndexFunc(columns, func(c format.ColumnChunk) bool { return c.MetaData.PathInSchema[0] == "text" })].MetaData
	column.DataPageOffset, column.DictionaryPageOffset, column.TotalCompressedSize = 4, 0, int64(len(head))
	footer := must.Get(thrift.Marshal(new(thrift.CompactProtocol), meta))(t)
	bomb.WriteString("PAR1")
	bomb.Write(head)
	bomb.Write(footer)
	bomb.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	bomb.WriteString("PAR1")
	for name, read := range readers() {
		if err := read(t.Context(), bytes.NewReader(bomb.Bytes()), int64(bomb.Len())); err == nil || !strings.Contains(err.Error(), "its pages take more than") {
			t.Errorf("%s, a bomb of %d bytes: %v", name, bomb.Len(), err)
		}
		if err := read(t.Context(), halves{bytes.NewReader(good.Bytes())}, int64(good.Len())); err != nil {
			t.Errorf("%s, a store that gives less than it is asked for: %v", name, err)
		}
	}
}

// readers are the ways to read a Parquet file whose columns are a text and two lists of float32.
func readers() map[string]func(ctx context.Context, src io.ReaderAt, size int64) error {
	return map[string]func(ctx context.Context, src io.ReaderAt, size int64) error{
		"rows": func(ctx context.Context, src io.ReaderAt, size int64) error {
			return Parquet(ctx, src, size, func(Row) error { return nil })
		},
		"pictures": func(ctx context.Context, src io.ReaderAt, size int64) error {
			return Pictures(ctx, src, size, PictureColumns{Image: "text", Caption: "text"}, func(Picture) error { return nil })
		},
		"vectors": func(ctx context.Context, src io.ReaderAt, size int64) error {
			of := VectorColumns{Names: []string{"text"}, Image: "v", Text: "w"}
			return Vectors(ctx, src, size, of, func(string, string, []float32, []float32) error { return nil })
		},
	}
}

// nulls returns a file of so many rows, whose columns have no values.
func nulls(t *testing.T, rows, columns int) []byte {
	t.Helper()
	group := parquet.Group{}
	for i := range columns {
		group[fmt.Sprintf("c%04d", i)] = parquet.Optional(parquet.Int(64))
	}
	var buf bytes.Buffer
	w := parquet.NewWriter(&buf, parquet.NewSchema("nulls", group))
	row := make(parquet.Row, columns)
	for i := range row {
		row[i] = parquet.NullValue().Level(0, 0, i)
	}
	for range rows {
		must.Get(w.WriteRows([]parquet.Row{row}))(t)
	}
	must.Do(t, w.Close())
	return buf.Bytes()
}

// TestNullsAreCounted reads rows of columns without values. The reading ends when a file has too many.
func TestNullsAreCounted(t *testing.T) {
	const rows, columns = 20, 50
	raw := nulls(t, rows, columns)
	seen := 0
	if err := Parquet(t.Context(), bytes.NewReader(raw), int64(len(raw)), func(r Row) error { seen += 1 + len(r); return nil }); err != nil || seen != rows {
		t.Errorf("%d rows and values: %v", seen, err)
	}
	file := must.Get(parquet.OpenFile(bytes.NewReader(raw), int64(len(raw))))(t)
	left := int64(rows*columns - 1)
	if err := parquetGroup(t.Context(), file.RowGroups()[0], rowsAtOnce, &left, func(parquet.Row) error { return nil }); err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Errorf("a value more than may be: %v", err)
	}
	if mostValues(0) != freeValues || mostValues(1<<20) != freeValues+valuesOfAByte<<20 || mostValues(math.MaxInt64) != math.MaxInt64 {
		t.Error("a file may have another number of values than its bytes say")
	}
}

// halves reads half of what it is asked for, as a store may.
type halves struct{ io.ReaderAt }

func (h halves) ReadAt(p []byte, at int64) (int, error) {
	return h.ReaderAt.ReadAt(p[:(len(p)+1)/2], at)
}

// TestShortReads reads a file from a store that gives less than it is asked for.
func TestShortReads(t *testing.T) {
	raw := nulls(t, 3, 100)
	seen := 0
	if err := Parquet(t.Context(), halves{bytes.NewReader(raw)}, int64(len(raw)), func(Row) error { seen++; return nil }); err != nil || seen != 3 {
		t.Errorf("%d rows: %v, want three", seen, err)
	}
}
