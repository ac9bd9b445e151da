package table

import (
	"context"
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
