package table

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// errOpenQuote means that a row of CSV never ends.
var errOpenQuote = fmt.Errorf("a row has more than %d bytes: close its quote", 16*maxLineBytes)

// rowReader ends a row that takes too much memory. The caller marks the end of each row.
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

// fields calls each with the fields of every line of CSV or TSV, which are valid until each returns; nil for an
// unreadable line. It skips empty lines.
func fields(ctx context.Context, src io.Reader, kind string, each func([]string) error) error {
	if kind == ".tsv" {
		return lines(ctx, src, func(line []byte) error {
			if line == nil || bytes.Count(line, []byte("\t")) >= maxColumns {
				return each(nil)
			}
			return each(strings.Split(string(line), "\t"))
		})
	}
	bounded := &rowReader{src: src}
	r := csv.NewReader(bounded)
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := r.InputOffset()
		got, err := r.Read()
		bounded.row = r.InputOffset()
		var wrong *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && (first || !errors.As(err, &wrong) || wrong.Line != wrong.StartLine):
			return err
		case err != nil || r.InputOffset()-began > maxLineBytes || len(got) > maxColumns:
			got = nil
		}
		if err := each(got); err != nil {
			return err
		}
	}
}

// separated calls each with the rows of CSV or TSV.
func separated(ctx context.Context, src io.Reader, kind string, unnamed bool, each func(Row) error) error {
	var names []string
	return fields(ctx, src, kind, func(got []string) error {
		if names == nil && !unnamed {
			names = namesIn(got)
			return nil
		}
		if got == nil {
			return each(nil)
		}
		if unnamed && len(got) > len(names) {
			names = numbers(len(got))
		}
		row := make(Row, len(got))
		for i, text := range got[:min(len(got), len(names))] {
			row[names[i]] = strings.Clone(strings.ToValidUTF8(text, "\uFFFD"))
		}
		return each(row)
	})
}

// namesIn returns the names of columns in the first line of a text.
func namesIn(line []string) []string {
	names := make([]string, len(line))
	for i, name := range line {
		names[i] = strings.Clone(strings.TrimSpace(name))
	}
	return names
}

// numbers names columns by their numbers.
func numbers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i + 1)
	}
	return names
}

// separatedColumns returns the columns of CSV or TSV, and whether the first line is already a row, so that columns are
// named by numbers.
func separatedColumns(ctx context.Context, src io.Reader, kind string, want Columns) (found Columns, unnamed bool, err error) {
	enough := errors.New("the first line is read")
	err = fields(ctx, src, kind, func(line []string) error {
		if line == nil {
			return fmt.Errorf("its first line has more than %d bytes or %d columns", maxLineBytes, maxColumns)
		}
		all := columnsNamed(namesIn(line))
		if found, err = want.in(all); err == nil {
			return enough
		}
		address := slices.IndexFunc(line, isAddress)
		byNumber, wrong := want.in(columnsNamed(numbers(len(line))))
		switch {
		case want.URL != "" && want.Caption != "" && wrong == nil:
			found, unnamed = byNumber, true
			return enough
		case address >= 0:
			caption := 1
			if address == 0 {
				caption = 2
			}
			return fmt.Errorf("its first line has no names of columns, as it has an address: name the columns by their numbers, such as %s=%d %s=%d", urlOption, address+1, captionOption, caption)
		}
		return err
	})
	if errors.Is(err, enough) {
		err = nil
	} else if err == nil {
		found = want // the list is empty
	}
	return found, unnamed, err
}

func columnsNamed(names []string) (all []column) {
	for _, name := range names {
		all = append(all, column{name: name})
	}
	return all
}

// isAddress reports whether a field is a web address.
func isAddress(field string) bool {
	scheme, _, found := strings.Cut(strings.TrimSpace(field), "://")
	return found && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
