package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of a row of a text.
const (
	maxLineBytes = 1 << 20
	maxColumns   = 4096
)

// Read calls each with the rows of a file: .parquet, .csv, .tsv or .jsonl, by its name. The first line of CSV and TSV has
// the names of the columns, and their values are texts. A row of CSV, TSV or JSON lines that cannot be read, or has more than
// a megabyte or 4,096 columns, is nil. A quote of CSV that is closed in no line, or wrongly in another one, ends the reading
// with an error: nobody knows how many rows it hides.
func Read(ctx context.Context, path string, each func(Row) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch strings.ToLower(filepath.Ext(path)) {
	case ".parquet":
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return Parquet(ctx, f, info.Size(), each)
	case ".csv":
		return separated(ctx, f, ',', each)
	case ".tsv":
		return separated(ctx, f, '\t', each)
	case ".jsonl":
		return lines(ctx, f, each)
	}
	return fmt.Errorf("%s: want a list in .parquet, .csv, .tsv or .jsonl", path)
}

// errOpenQuote means that a row of CSV does not end.
var errOpenQuote = fmt.Errorf("a row has more than %d bytes: close its quote", 16*maxLineBytes)

// rowReader ends a row that takes too much. The caller says where a row has ended.
type rowReader struct {
	src  io.Reader
	read int64
	row  int64 // where the row begins
}

func (r *rowReader) Read(p []byte) (int, error) {
	if r.read-r.row > 16*maxLineBytes {
		return 0, errOpenQuote
	}
	n, err := r.src.Read(p)
	r.read += int64(n)
	return n, err
}

func separated(ctx context.Context, src io.Reader, comma rune, each func(Row) error) error {
	bounded := &rowReader{src: src}
	r := csv.NewReader(bounded)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, comma == '\t', -1, true
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := r.InputOffset()
		fields, err := r.Read()
		bounded.row = r.InputOffset()
		var wrong *csv.ParseError
		var row Row
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && (names == nil || !errors.As(err, &wrong) || wrong.Line != wrong.StartLine):
			return err
		case names == nil:
			names = append([]string{}, fields...)
			continue
		case err == nil && r.InputOffset()-began <= maxLineBytes && len(fields) <= maxColumns:
			row = make(Row, len(fields))
			for i, text := range fields[:min(len(fields), len(names))] {
				row[names[i]] = strings.Clone(strings.ToValidUTF8(text, "\uFFFD"))
			}
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

func lines(ctx context.Context, src io.Reader, each func(Row) error) error {
	r := bufio.NewReaderSize(src, maxLineBytes)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := r.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err != nil
		var row Row
		if !long {
			row = object(line)
		}
		if long || len(bytes.TrimSpace(line)) > 0 {
			if err := each(row); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// object returns the scalars of a JSON object, or nil for any other text. What is no scalar is not built.
func object(line []byte) Row {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil || len(members) > maxColumns {
		return nil
	}
	row := make(Row, len(members))
	for name, raw := range members {
		if strings.IndexByte("[{n", raw[0]) >= 0 {
			continue // a list, an object, or null
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var value any
		if err := d.Decode(&value); err != nil {
			return nil
		}
		switch v := value.(type) {
		case string, bool:
			row[name] = v
		case json.Number:
			if i, err := v.Int64(); err == nil {
				row[name] = i
			} else if f, err := v.Float64(); err == nil {
				row[name] = f
			}
		}
	}
	return row
}
