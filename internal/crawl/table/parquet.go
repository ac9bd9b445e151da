// Package table reads the tables in which crawls describe and list their pictures: Parquet, CSV, TSV and JSON lines.
//
// A [Row] has the scalars of a row by the names of the columns: int64, float64, string and bool. Nulls, lists, objects,
// bytes that are no text, texts of more than a megabyte, NaN and infinities are left out. Rows come in the order of the
// table.
//
// Dates and times in Parquet come as the integers in the file. An integer that does not fit int64 is a float64.
// Decimals, half floats, INT96 and byte arrays of a fixed length are left out.
package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Row has the scalars of a row by the names of their columns.
type Row map[string]any

// rowsAtOnce is the number of rows that are decoded at once.
const rowsAtOnce = 256

// Parquet calls each with the rows of a Parquet file. It ends with the first error of each.
func Parquet(ctx context.Context, src io.ReaderAt, size int64, each func(Row) error) error {
	scalars := make(map[int]scalar)
	find := func(schema *parquet.Schema) error {
		for i, path := range schema.Columns() {
			if leaf, ok := schema.Lookup(path...); ok && len(path) == 1 && leaf.MaxRepetitionLevel == 0 {
				if !utf8.ValidString(path[0]) {
					return fmt.Errorf("reading Parquet: the name of column %d is no UTF-8", i)
				}
				if s, ok := scalarOf(path[0], leaf.Node.Type()); ok {
					scalars[i] = s
				}
			}
		}
		return nil
	}
	return parquetRows(ctx, src, size, rowsAtOnce, find, func(values parquet.Row) error {
		row := make(Row) // most values may be nulls
		for _, v := range values {
			if column, ok := scalars[v.Column()]; ok && !v.IsNull() {
				row.set(column, v)
			}
		}
		return each(row)
	})
}

// parquetRows calls find with the columns of a Parquet file, and then each with its rows, of which it decodes atOnce at
// a time. It refuses a file that would take much more memory than its bytes. The values of a row are valid until each
// returns.
func parquetRows(ctx context.Context, src io.ReaderAt, size int64, atOnce int, find func(*parquet.Schema) error, each func(parquet.Row) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some damaged files
			err = fmt.Errorf("reading Parquet: %v", p)
		}
	}()
	src = whole{src, size}
	if err := checkFooter(src, size); err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	file, err := parquet.OpenFile(src, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	if err := find(file.Schema()); err != nil {
		return err
	}
	left := mostValues(size)
	for i, group := range file.RowGroups() {
		if group.NumRows() == 0 {
			continue // the library cannot read one that has no pages
		}
		if err := checkPages(src, size, &file.Metadata().RowGroups[i]); err != nil {
			return fmt.Errorf("reading Parquet: %w", err)
		}
		if err := parquetGroup(ctx, group, atOnce, &left, each); err != nil {
			return err
		}
	}
	return nil
}

// whole fills each buffer completely, from a source that may return less.
type whole struct {
	src  io.ReaderAt
	size int64
}

// ReadAt implements [io.ReaderAt].
func (w whole) ReadAt(p []byte, at int64) (int, error) {
	n, err := io.ReadFull(io.NewSectionReader(w.src, at, max(w.size-at, 0)), p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// scalar is a column of scalars.
type scalar struct {
	name     string
	unsigned bool
}

// scalarOf returns a column of scalars, or false for other types.
func scalarOf(name string, of parquet.Type) (scalar, bool) {
	s := scalar{name: name}
	if k := of.Kind(); k == parquet.FixedLenByteArray || k == parquet.Int96 {
		return s, false
	}
	if logical := of.LogicalType(); logical != nil {
		switch t := logical.Value.(type) {
		case *format.DecimalType:
			return s, false
		case *format.IntType:
			s.unsigned = !t.IsSigned
		}
	}
	return s, true
}

// parquetGroup reads a group of rows. left is the number of values that may still be read.
func parquetGroup(ctx context.Context, group parquet.RowGroup, atOnce int, left *int64, each func(parquet.Row) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, atOnce)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(buf)
		for _, values := range buf[:n] {
			if *left -= int64(len(values)); *left < 0 {
				return errors.New("reading Parquet: a few bytes of it stand for too many values")
			}
			if err := each(values); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading Parquet: %w", err)
		case n == 0:
			return errors.New("reading Parquet: a group of rows does not end")
		}
	}
}

// set takes a scalar of Parquet.
func (r Row) set(column scalar, v parquet.Value) {
	switch v.Kind() {
	case parquet.Boolean:
		r[column.name] = v.Boolean()
	case parquet.Int32:
		if r[column.name] = int64(v.Int32()); column.unsigned {
			r[column.name] = int64(v.Uint32())
		}
	case parquet.Int64:
		if r[column.name] = v.Int64(); column.unsigned && v.Uint64() > math.MaxInt64 {
			r[column.name] = float64(v.Uint64())
		}
	case parquet.Float:
		r.number(column.name, float64(v.Float()))
	case parquet.Double:
		r.number(column.name, v.Double())
	case parquet.ByteArray:
		if raw := v.ByteArray(); len(raw) <= maxLineBytes && utf8.Valid(raw) {
			r[column.name] = string(raw)
		}
	case parquet.FixedLenByteArray, parquet.Int96: // no scalars
	}
}

// number takes a number that JSON has.
func (r Row) number(name string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		r[name] = v
	}
}

// Text returns the text of a column, or "".
func (r Row) Text(name string) string {
	text, _ := r[name].(string)
	return text
}

// VectorColumns name the columns of a table of features. The first existing column of Names names a row.
type VectorColumns struct {
	Names       []string
	Image, Text string
}

// Vectors calls each with the rows of a Parquet file that has two lists of float32 beside a name, and returns the
// column of the name. The vectors are valid until each returns.
func Vectors(ctx context.Context, src io.ReaderAt, size int64, of VectorColumns, each func(column, name string, image, text []float32) error) error {
	var at vectorLeaves
	find := func(schema *parquet.Schema) (err error) {
		at, err = of.find(schema)
		return err
	}
	var images, texts []float32
	return parquetRows(ctx, src, size, rowsAtOnce, find, func(values parquet.Row) error {
		images, texts = images[:0], texts[:0]
		name := ""
		for _, value := range values {
			switch column := value.Column(); {
			case value.IsNull():
			case column == at.name:
				name = string(value.ByteArray())
			case column == at.image:
				images = append(images, value.Float())
			case column == at.text:
				texts = append(texts, value.Float())
			}
		}
		return each(at.column, name, images, texts)
	})
}

// vectorLeaves are the leaves that hold names and vectors, and the column of the names.
type vectorLeaves struct {
	name, image, text int
	column            string
}

func (c VectorColumns) find(schema *parquet.Schema) (vectorLeaves, error) {
	at := vectorLeaves{name: -1, image: -1, text: -1}
	leaves := schema.Columns()
	for _, wanted := range c.Names {
		for i, path := range leaves {
			if leaf, ok := schema.Lookup(path...); ok && at.name < 0 && len(path) == 1 && path[0] == wanted && leaf.Node.Type().Kind() == parquet.ByteArray {
				at.name, at.column = i, wanted
			}
		}
	}
	for i, path := range leaves {
		if leaf, ok := schema.Lookup(path...); !ok || leaf.MaxRepetitionLevel != 1 || leaf.Node.Type().Kind() != parquet.Float {
			continue
		}
		switch path[0] {
		case c.Image:
			at.image = i
		case c.Text:
			at.text = i
		}
	}
	if at.name < 0 || at.image < 0 || at.text < 0 {
		return at, fmt.Errorf("want a column of texts among %q and lists of float32 in %q and %q; the columns are %q", c.Names, c.Image, c.Text, leaves)
	}
	return at, nil
}

// Records calls each with the rows of a Parquet file as values of T, whose fields name columns. The file may have more
// columns. It ends with the first error of each.
func Records[T any](ctx context.Context, path string, each func(T) error) error {
	wanted := parquet.SchemaOf(new(T))
	var conversion parquet.Conversion
	find := func(schema *parquet.Schema) (err error) {
		for _, column := range wanted.Columns() {
			if _, ok := schema.Lookup(column...); !ok {
				return fmt.Errorf("reading Parquet: it has no column %q", column[0])
			}
		}
		conversion, err = parquet.Convert(wanted, schema)
		return err
	}
	buf := make([]parquet.Row, 1)
	return inParquet(path, func(src io.ReaderAt, size int64) error {
		return parquetRows(ctx, src, size, rowsAtOnce, find, func(values parquet.Row) error {
			buf[0] = append(buf[0][:0], values...)
			if _, err := conversion.Convert(buf); err != nil {
				return fmt.Errorf("reading Parquet: %w", err)
			}
			var row T
			if err := wanted.Reconstruct(&row, buf[0]); err != nil {
				return fmt.Errorf("reading Parquet: %w", err)
			}
			return each(row)
		})
	})
}
