package table

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// picturesAtOnce is the number of rows with pictures that are decoded at once.
const picturesAtOnce = 16

// PictureColumns name the columns of a data set with pictures in it.
type PictureColumns struct{ Image, Caption string }

// Picture is a row of a data set with pictures in it. Either part may be missing.
type Picture struct {
	Encoded  []byte
	Captions []string
}

// Pictures calls each with the rows of a Parquet file that holds the bytes of images, as Hugging Face's data sets do. The column of
// the image is one of bytes, or a group with a column "bytes"; that of the caption is a text or a list of texts. What is no text,
// or longer than a megabyte, is left out. A Picture is valid until each returns.
func Pictures(ctx context.Context, src io.ReaderAt, size int64, of PictureColumns, each func(Picture) error) error {
	var image int
	var captions []int
	find := func(schema *parquet.Schema) (err error) {
		image, captions, err = of.find(schema)
		return err
	}
	return parquetRows(ctx, src, size, picturesAtOnce, find, func(values parquet.Row) error {
		var p Picture
		for _, v := range values {
			caption := slices.Contains(captions, v.Column())
			if v.IsNull() || v.Column() != image && !caption {
				continue
			}
			raw := v.ByteArray()
			switch {
			case len(raw) == 0:
			case !caption:
				p.Encoded = raw
			case len(raw) <= maxLineBytes && utf8.Valid(raw):
				p.Captions = append(p.Captions, string(raw))
			}
		}
		return each(p)
	})
}

// find returns the leaves that hold images and captions.
func (c PictureColumns) find(schema *parquet.Schema) (image int, captions []int, err error) {
	image = -1
	names := []string{}
	for i, path := range schema.Columns() {
		leaf, ok := schema.Lookup(path...)
		if name := path[0]; !slices.Contains(names, name) {
			names = append(names, name)
		}
		if !ok || leaf.Node.Type().Kind() != parquet.ByteArray {
			continue
		}
		if path[0] == c.Image && leaf.MaxRepetitionLevel == 0 && (len(path) == 1 || len(path) == 2 && path[1] == "bytes") {
			image = i
		}
		if path[0] == c.Caption {
			captions = append(captions, i)
		}
	}
	switch columns := strings.Join(names, ", "); {
	case image < 0 && slices.Contains(names, "url"):
		return 0, nil, fmt.Errorf("no column %q with the bytes of images, but addresses: pairstream fetch downloads them into tars", c.Image)
	case image < 0:
		return 0, nil, fmt.Errorf("no column %q with the bytes of images (--image-col); the columns are %s", c.Image, columns)
	case len(captions) == 0:
		return 0, nil, fmt.Errorf("no column %q with texts (--caption-col); the columns are %s", c.Caption, columns)
	}
	return image, captions, nil
}
