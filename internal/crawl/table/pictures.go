package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// picturesAtOnce is the number of rows with pictures that are decoded at once.
const picturesAtOnce = 16

// PictureColumns name the columns of a data set with pictures in it. A member of a group follows a dot.
type PictureColumns struct{ Image, Caption string }

// Picture is a row of a data set with pictures in it. Either part may be missing.
type Picture struct {
	Encoded  []byte
	Captions []string
}

// Pictures calls each with the rows of a Parquet file that holds the bytes of images, as Hugging Face's data sets do.
// The column of the image is one of bytes, or a group with a column "bytes"; that of the caption is a text or a list of
// texts. Other values, and texts of more than a megabyte, are left out. A Picture is valid until each returns.
func Pictures(ctx context.Context, src io.ReaderAt, size int64, of PictureColumns, each func(Picture) error) error {
	var image, caption int
	find := func(schema *parquet.Schema) (err error) {
		image, caption, err = of.find(schema)
		return err
	}
	return parquetRows(ctx, src, size, picturesAtOnce, find, func(values parquet.Row) error {
		var p Picture
		for _, v := range values {
			if v.IsNull() || v.Column() != image && v.Column() != caption {
				continue
			}
			raw := v.ByteArray()
			switch {
			case len(raw) == 0:
			case v.Column() == image:
				p.Encoded = raw
			case len(raw) <= maxLineBytes && utf8.Valid(raw):
				p.Captions = append(p.Captions, string(raw))
			}
		}
		return each(p)
	})
}

// CheckPictures returns the error of [Pictures] for a Parquet file without the columns. It reads no rows.
func CheckPictures(ctx context.Context, src io.ReaderAt, size int64, of PictureColumns) error {
	found := errors.New("they are there")
	err := parquetRows(ctx, src, size, picturesAtOnce, func(schema *parquet.Schema) error {
		if _, _, err := of.find(schema); err != nil {
			return err
		}
		return found
	}, nil)
	if errors.Is(err, found) {
		return nil
	}
	return err
}

// find returns the leaves that hold images and captions.
func (c PictureColumns) find(schema *parquet.Schema) (image, caption int, err error) {
	all := columnsOf(schema)
	columns := quoted(all)
	at, err := pathOf(schema, c.Image)
	if errors.Is(err, errNoColumn) && slices.ContainsFunc(all, func(c column) bool { return slices.Contains(urlNames, strings.ToLower(c.name)) }) {
		return 0, 0, fmt.Errorf("no column %q with the bytes of images, but addresses: pairstream fetch downloads them into tars", c.Image)
	}
	if err == nil && at.lists == 0 && !at.node.Leaf() {
		at, err = at.member("bytes")
	}
	if err == nil && (at.lists > 0 || !at.isText()) {
		err = fmt.Errorf("it holds %s", holds(at.top))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("no column %q with the bytes of images (--image-col): %w; the columns are %s", c.Image, err, columns)
	}
	image = leafAt(schema, at.path)
	if at, err = pathOf(schema, c.Caption); err == nil {
		err = at.checkTexts(c.Caption)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("no column %q with texts (--caption-col): %w; the columns are %s", c.Caption, err, columns)
	}
	return image, leafAt(schema, at.path), nil
}

// leafAt returns the number of a leaf.
func leafAt(schema *parquet.Schema, path []string) int {
	return slices.IndexFunc(schema.Columns(), func(p []string) bool { return slices.Equal(p, path) })
}

// schemaNode is a node of a schema, inside the lists that lead to it.
type schemaNode struct {
	path  []string
	top   parquet.Node // the column
	node  parquet.Node
	lists int
}

// errNoColumn means that there is no such column.
var errNoColumn = errors.New("there is none of this name")

// pathOf returns the node of a column, or of a member of its groups.
func pathOf(schema *parquet.Schema, name string) (schemaNode, error) {
	at := schemaNode{node: schema}
	if found, err := at.member(name); err == nil {
		found.top = found.node
		return found.inside(), nil
	}
	for i, part := range strings.Split(name, ".") {
		found, err := at.member(part)
		if err != nil {
			return at, err
		}
		if at = found.inside(); i == 0 {
			at.top = found.node
		}
	}
	return at, nil
}

// member returns a field of a group. The case of letters matters only between names that differ in nothing else.
func (p schemaNode) member(name string) (schemaNode, error) {
	fields := p.node.Fields()
	at := slices.IndexFunc(fields, func(f parquet.Field) bool { return f.Name() == name })
	if at < 0 {
		at = slices.IndexFunc(fields, func(f parquet.Field) bool { return strings.EqualFold(f.Name(), name) })
	}
	if at < 0 {
		return p, errNoColumn
	}
	return p.down(fields[at]), nil
}

func (p schemaNode) down(f parquet.Field) schemaNode {
	p.path, p.node = append(slices.Clip(p.path), f.Name()), f
	return p
}

// inside returns the node inside the lists that begin here. A list is a repeated field, usually the only one of a
// group, and usually itself a group of one field.
//
//	optional group caption (LIST) { repeated group list { optional binary element } }
func (p schemaNode) inside() schemaNode {
	for {
		fields := p.node.Fields()
		switch only := len(fields) == 1; {
		case p.node.Repeated() && only:
			p.lists++
			p = p.down(fields[0])
		case p.node.Repeated():
			p.lists++
			return p
		case only && fields[0].Repeated():
			p = p.down(fields[0])
		default:
			return p
		}
	}
}

// isText reports whether a node is a leaf of bytes.
func (p schemaNode) isText() bool { return p.node.Leaf() && p.node.Type().Kind() == parquet.ByteArray }

// checkTexts refuses all but texts and lists of texts, and names the members of a group.
func (p schemaNode) checkTexts(name string) error {
	switch {
	case p.isText() && p.lists <= 1:
		return nil
	case p.isText():
		return errors.New("it holds lists of lists")
	case p.node.Leaf():
		return fmt.Errorf("it holds %s", p.node.Type())
	}
	var members []string
	for _, f := range p.node.Fields() {
		members = append(members, name+"."+f.Name())
	}
	return fmt.Errorf("it holds groups: name a member, of %q", members)
}
