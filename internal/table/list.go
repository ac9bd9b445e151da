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

// maxLineBytes bounds a line of JSON.
const maxLineBytes = 16 << 20

// Read calls each with the rows of a file: .parquet, .csv, .tsv or .jsonl, by its name. The first line of CSV and TSV has
// the names of the columns, and their values are texts.
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

func separated(ctx context.Context, src io.Reader, comma rune, each func(Row) error) error {
	r := csv.NewReader(bufio.NewReader(src))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, comma == '\t', -1, true
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		fields, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case names == nil:
			names = append([]string{}, fields...)
			continue
		}
		row := make(Row, len(fields))
		for i, text := range fields[:min(len(fields), len(names))] {
			row[names[i]] = strings.ToValidUTF8(text, "\uFFFD")
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

func lines(ctx context.Context, src io.Reader, each func(Row) error) error {
	s := bufio.NewScanner(src)
	s.Buffer(nil, maxLineBytes)
	for n := 1; s.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.UseNumber()
		var members map[string]any
		if err := d.Decode(&members); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		row := make(Row, len(members))
		for name, value := range members {
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
		if err := each(row); err != nil {
			return err
		}
	}
	return s.Err()
}
