package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// lines calls each with the nonempty lines of a text; nil for a line of more than a megabyte. A line is valid until
// each returns.
func lines(ctx context.Context, src io.Reader, each func([]byte) error) error {
	r := bufio.NewReaderSize(src, maxLineBytes) // src itself, where that is one
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
		if line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")); long {
			line = nil
		}
		if long || len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

// objects calls each with the members of every line that is a JSON object, and with nil for any other line.
func objects(ctx context.Context, src io.Reader, each func(map[string]json.RawMessage) error) error {
	return lines(ctx, src, func(line []byte) error {
		if line != nil && len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		return each(members(line))
	})
}

// objectReader calls each with the members of every row, in order, and with nil for a row that is no JSON object.
type objectReader func(ctx context.Context, src io.Reader, each func(map[string]json.RawMessage) error) error

// elements is the [objectReader] of a JSON array, or of the array "annotations" of an object, as RedCaps is published.
// An element of more than a megabyte ends it with an error.
func elements(ctx context.Context, src io.Reader, each func(map[string]json.RawMessage) error) error {
	plain, err := JSONReader(src)
	if err != nil {
		return err
	}
	text := &Metered{Reader: plain, Left: maxElement}
	d := json.NewDecoder(text)
	begin, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil // without a row
	case err != nil:
		return err
	case begin == json.Delim('{'):
		if err := toAnnotations(d); err != nil {
			return err
		}
	case begin != json.Delim('['):
		return errNoArray
	}
	for d.More() {
		if err := ctx.Err(); err != nil {
			return err
		}
		text.Left = maxElement
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return fmt.Errorf("the array cannot be read after byte %d: %w", d.InputOffset(), err)
		}
		if err := each(members(row)); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the array is cut at byte %d: %w", d.InputOffset(), err)
	}
	return nil
}

// maxElement bounds an element of an array, including read-ahead.
const maxElement = 2 * maxLineBytes

var errNoArray = errors.New(`it is no array of objects, and has no array "annotations": JSON lines go into .jsonl`)

// toAnnotations reads on to the first element of the array "annotations".
func toAnnotations(d *json.Decoder) error {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == "annotations" {
			if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
				return errors.Join(errNoArray, err)
			}
			return nil
		}
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return err
		}
	}
	return errNoArray
}

// Metered ends a text with an error once Left bytes of it were read. Its user resets Left for each row, so that one row
// cannot fill the memory.
type Metered struct {
	io.Reader
	Left int
}

// Read implements io.Reader.
func (m *Metered) Read(out []byte) (int, error) {
	if m.Left <= 0 {
		return 0, errors.New("a row or an entry is too long")
	}
	n, err := m.Reader.Read(out[:min(len(out), m.Left)])
	m.Left -= n
	return n, err
}

// members returns the members of a JSON object, or nil for any other text.
func members(line []byte) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		all = nil
		if json.Unmarshal(PlainJSON(line), &all) != nil {
			return nil
		}
	}
	if len(all) > maxColumns {
		return nil
	}
	return all
}

// scalars returns the scalars among the members of an object; nil for nil. It does not build other values.
func scalars(all map[string]json.RawMessage) Row {
	if all == nil {
		return nil
	}
	row := make(Row, len(all))
	for name, raw := range all {
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

// Bounds of the search for the columns of JSON lines.
const (
	// sampledRows is the number of rows to read before a column counts as found, because rows omit columns without a
	// value.
	sampledRows = 100
	maxNameSeen = 256
)

// objectColumns returns the columns of rows that are JSON objects. It reads on until all columns have come, to the end
// of the list if need be.
func objectColumns(ctx context.Context, src io.Reader, rows objectReader, want Columns) (found Columns, err error) {
	read, seen := 0, map[string]string{}
	enough := errors.New("the columns are known")
	err = rows(ctx, src, func(row map[string]json.RawMessage) error {
		read++
		news := read == sampledRows
		for name, raw := range row {
			before, known := seen[name]
			now := heldBy(raw)
			if known && (before == "" || now != "" && before != nothing) || !known && (len(seen) == maxColumns || len(name) > maxNameSeen) {
				continue
			}
			seen[name], news = now, true
		}
		if read < sampledRows || !news {
			return nil
		}
		if found, err = want.in(columnsSeen(seen)); err == nil {
			return enough
		}
		return nil
	})
	switch {
	case errors.Is(err, enough):
		return found, nil
	case err == nil && read == 0:
		return want, nil
	case err == nil:
		return want.in(columnsSeen(seen))
	}
	return found, err
}

func columnsSeen(seen map[string]string) (all []column) {
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, column{name, seen[name]})
	}
	return all
}

// nothing is held by a column that has been null so far.
const nothing = "nothing but null"

// heldBy names the type of a JSON value that is no text.
func heldBy(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return ""
	case '[':
		return "lists"
	case '{':
		return "objects"
	case 'n':
		return nothing
	case 't', 'f':
		return "truth values"
	}
	return "numbers"
}
