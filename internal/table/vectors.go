package table

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// VectorColumns name the columns of a table of features. Names has the columns of which the first one that is there names a row.
type VectorColumns struct {
	Names       []string
	Image, Text string
}

// Vectors calls each with the rows of a Parquet file that has two lists of float32 beside a name, and says which column the name
// is from. The vectors are valid until each returns.
func Vectors(ctx context.Context, src io.ReaderAt, size int64, of VectorColumns, each func(column, name string, image, text []float32) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some damaged files
			err = fmt.Errorf("reading Parquet: %v", p)
		}
	}()
	if err := checkFooter(src, size); err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	file, err := parquet.OpenFile(src, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("reading Parquet: %w", err)
	}
	name, image, text := -1, -1, -1
	column := ""
	leaves := file.Schema().Columns()
	for _, wanted := range of.Names {
		for i, path := range leaves {
			if leaf, ok := file.Schema().Lookup(path...); ok && name < 0 && len(path) == 1 && path[0] == wanted && leaf.Node.Type().Kind() == parquet.ByteArray {
				name, column = i, wanted
			}
		}
	}
	for i, path := range leaves {
		if leaf, ok := file.Schema().Lookup(path...); !ok || leaf.MaxRepetitionLevel != 1 || leaf.Node.Type().Kind() != parquet.Float {
			continue
		}
		switch path[0] {
		case of.Image:
			image = i
		case of.Text:
			text = i
		}
	}
	if name < 0 || image < 0 || text < 0 {
		return fmt.Errorf("want a column of texts among %q and lists of float32 in %q and %q; the columns are %q", of.Names, of.Image, of.Text, leaves)
	}
	for _, group := range file.RowGroups() {
		if group.NumRows() == 0 {
			continue // the library cannot read one that has no pages
		}
		v := vectorRows{name: name, image: image, text: text}
		if err := v.read(ctx, group, func(name string) error { return each(column, name, v.images, v.texts) }); err != nil {
			return err
		}
	}
	return nil
}

// vectorRows reads rows with vectors.
type vectorRows struct {
	name, image, text int // columns
	images, texts     []float32
}

func (v *vectorRows) read(ctx context.Context, group parquet.RowGroup, each func(name string) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, rowsAtOnce)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(buf)
		for _, values := range buf[:n] {
			v.images, v.texts = v.images[:0], v.texts[:0]
			name := ""
			for _, value := range values {
				switch column := value.Column(); {
				case value.IsNull():
				case column == v.name:
					name = string(value.ByteArray())
				case column == v.image:
					v.images = append(v.images, value.Float())
				case column == v.text:
					v.texts = append(v.texts, value.Float())
				}
			}
			if err := each(name); err != nil {
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
