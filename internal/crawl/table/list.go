package table

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/portion"
)

// Bounds of a row of a text.
const (
	maxLineBytes = 1 << 20
	maxColumns   = 4096
)

// List is a list of addresses and captions: a file in .parquet, or in .csv, .tsv, .jsonl or .json (an array of
// objects), which may be compressed (.gz), or a folder of such files, which are read in the order of their names.
type List struct {
	Columns // the columns found

	files []listFile
	share portion.Share // of the rows, numbered through all files
}

// listFile is a file of a list.
type listFile struct {
	path    string
	kind    string // its extension
	unnamed bool   // its first line is a row: columns have their numbers for names, from 1
}

// kinds are the extensions of lists.
var kinds = []string{".parquet", ".csv", ".tsv", ".jsonl", ".json"}

// kindOf returns the extension of a list's file, or "".
func kindOf(path string) string {
	kind := strings.ToLower(filepath.Ext(path))
	if kind == ".gz" {
		kind = strings.ToLower(filepath.Ext(path[:len(path)-len(kind)]))
		if kind == ".parquet" {
			return ""
		}
	}
	if !slices.Contains(kinds, kind) {
		return ""
	}
	return kind
}

// Open finds the columns of a list. It refuses a list without them, and names the list's columns.
func Open(ctx context.Context, path string, want Columns) (*List, error) {
	path, share, err := portion.Cut(path)
	if err != nil {
		return nil, err
	}
	if share.IsCopy() {
		return nil, fmt.Errorf("%s: option copy is for tars and lists of image files: fetch once, and produce the tars with it", path)
	}
	paths, err := listFiles(path)
	if err != nil {
		return nil, err
	}
	l := &List{Columns: want, share: share}
	for i, p := range paths {
		f := listFile{path: p, kind: kindOf(p)}
		found, err := f.find(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if i > 0 && found != l.Columns {
			return nil, fmt.Errorf("%s has columns %q and %q, and %s has %q and %q: name those of all files (%s, %s), or fetch them one by one",
				paths[0], l.URL, l.Caption, p, found.URL, found.Caption, urlOption, captionOption)
		}
		l.Columns, l.files = found, append(l.files, f)
	}
	return l, nil
}

// listFiles returns the files of a list. In a folder it skips .json files, which are seldom lists.
func listFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if kindOf(path) == "" {
			return nil, fmt.Errorf("%s: want a list in %s, or a folder of these; all but Parquet may be compressed (.gz)", path, strings.Join(kinds, ", "))
		}
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if kind := kindOf(e.Name()); kind != "" && kind != ".json" && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no list in %s", path, strings.Join(kinds, ", "))
	}
	return files, nil
}

// find returns the columns of a file.
func (f *listFile) find(ctx context.Context, want Columns) (found Columns, err error) {
	if f.kind == ".parquet" {
		return parquetColumns(ctx, f.path, want)
	}
	err = f.open(func(text io.Reader) error {
		if rows := f.objects(); rows != nil {
			found, err = objectColumns(ctx, text, rows, want)
		} else {
			found, f.unnamed, err = separatedColumns(ctx, text, f.kind, want)
		}
		return err
	})
	return found, err
}

// Read calls each with the rows of a list, in order. Values of CSV and TSV are texts; TSV has no quotes. A row of CSV,
// TSV or JSON lines that cannot be read, or has more than a megabyte or 4,096 columns, is nil. An unclosed or misplaced
// quote in CSV ends the reading with an error, because it may hide any number of rows.
func (l *List) Read(ctx context.Context, each func(Row) error) error {
	number := int64(-1)
	drawn := func(r Row) error {
		if number++; !l.share.HasRow(number) {
			return nil
		}
		return each(r)
	}
	for _, f := range l.files {
		if err := f.read(ctx, drawn); err != nil {
			return fmt.Errorf("reading %s: %w", f.path, err)
		}
	}
	return nil
}

func (f *listFile) read(ctx context.Context, each func(Row) error) error {
	if f.kind == ".parquet" {
		return ParquetFile(ctx, f.path, each)
	}
	return f.open(func(text io.Reader) error {
		if rows := f.objects(); rows != nil {
			return rows(ctx, text, func(members map[string]json.RawMessage) error { return each(scalars(members)) })
		}
		return separated(ctx, text, f.kind, f.unnamed, each)
	})
}

// objects returns the reader for a file whose rows are JSON objects, or nil.
func (f *listFile) objects() objectReader {
	switch f.kind {
	case ".jsonl":
		return objects
	case ".json":
		return elements
	}
	return nil
}

// open opens a text for read.
func (f *listFile) open(read func(text io.Reader) error) (err error) {
	src, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer src.Close()
	var text io.Reader = src
	if strings.EqualFold(filepath.Ext(f.path), ".gz") {
		unpacked, err := gzip.NewReader(src)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unpacked.Close()) }()
		text = unpacked
	}
	plain, err := SkipMark(text)
	if err != nil {
		return err
	}
	return read(plain)
}

// parquetColumns returns the columns of a Parquet file.
func parquetColumns(ctx context.Context, path string, want Columns) (found Columns, err error) {
	enough := errors.New("the columns are known")
	err = inParquet(path, func(src io.ReaderAt, size int64) error {
		return parquetRows(ctx, src, size, 1, func(schema *parquet.Schema) error {
			if found, err = want.in(columnsOf(schema)); err != nil {
				return err
			}
			return enough
		}, nil)
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return found, err
}

// ParquetFile calls each with the rows of a Parquet file on a disk; see [Parquet].
func ParquetFile(ctx context.Context, path string, each func(Row) error) error {
	return inParquet(path, func(src io.ReaderAt, size int64) error { return Parquet(ctx, src, size, each) })
}

func inParquet(path string, read func(src io.ReaderAt, size int64) error) error {
	src, err := os.Open(path)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	return read(src, info.Size())
}

// columnsOf returns the columns of a Parquet file.
func columnsOf(schema *parquet.Schema) (all []column) {
	for _, f := range schema.Fields() {
		all = append(all, column{f.Name(), holds(f)})
	}
	return all
}

// holds names the type of a Parquet column that is no text.
func holds(n parquet.Node) string {
	switch {
	case (schemaNode{node: n}).inside().lists > 0:
		return "lists"
	case !n.Leaf():
		return "groups"
	case n.Type().Kind() == parquet.ByteArray:
		if _, ok := scalarOf("", n.Type()); ok {
			return ""
		}
	}
	return n.Type().String()
}
