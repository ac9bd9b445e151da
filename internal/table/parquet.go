// Package table reads the tables in which crawls describe and list their pictures: Parquet, CSV, TSV and JSON lines.
//
// A [Row] has the scalars of a row by the names of the columns: int64, float64, string and bool. Nulls, lists, objects
// and bytes that are no text are left out. Rows come in the order of the table.
package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// Row has the scalars of a row by the names of their columns.
type Row map[string]any

// rowsAtOnce is the number of rows that are decoded at once.
const rowsAtOnce = 256

// Parquet calls each with the rows of a Parquet file. It ends with the first error of each.
func Parquet(ctx context.Context, src io.ReaderAt, size int64, each func(Row) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some damaged files
			err = fmt.Errorf("reading Parquet: %v", p)
		}
	}()
	file, err := parquet.OpenFile(src, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	names := make(map[int]string)
	for i, path := range file.Schema().Columns() {
		if leaf, ok := file.Schema().Lookup(path...); ok && len(path) == 1 && leaf.MaxRepetitionLevel == 0 {
			names[i] = path[0]
		}
	}
	for _, group := range file.RowGroups() {
		if err := parquetGroup(ctx, group, names, each); err != nil {
			return err
		}
	}
	return nil
}

func parquetGroup(ctx context.Context, group parquet.RowGroup, names map[int]string, each func(Row) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, rowsAtOnce)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(buf)
		for _, values := range buf[:n] {
			row := make(Row, len(values))
			for _, v := range values {
				if name := names[v.Column()]; name != "" {
					row.set(name, v)
				}
			}
			if err := each(row); err != nil {
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
func (r Row) set(name string, v parquet.Value) {
	if v.IsNull() {
		return
	}
	switch v.Kind() {
	case parquet.Boolean:
		r[name] = v.Boolean()
	case parquet.Int32:
		r[name] = int64(v.Int32())
	case parquet.Int64:
		r[name] = v.Int64()
	case parquet.Float:
		r[name] = float64(v.Float())
	case parquet.Double:
		r[name] = v.Double()
	case parquet.ByteArray, parquet.FixedLenByteArray:
		if raw := v.ByteArray(); utf8.Valid(raw) {
			r[name] = string(raw)
		}
	case parquet.Int96: // a time of old writers
	}
}

// Text returns the text of a column, or "".
func (r Row) Text(name string) string {
	text, _ := r[name].(string)
	return text
}
