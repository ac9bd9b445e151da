package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

// lines calls each with the lines of a text that are not empty; nil for a line of more than a megabyte. A line is valid until each
// returns.
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

// scalars returns the scalars among the members of an object; nil for nil. What is no scalar is not built.
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

// Bounds of what is remembered while the columns of JSON lines are looked for.
const (
	// sampledRows are read before a column counts as found, as rows leave out what they do not have.
	sampledRows = 100
	maxNameSeen = 256
)

// lineColumns returns the columns of JSON lines. It reads on while a column has not come, to the end of the list if need be.
func lineColumns(ctx context.Context, src io.Reader, want Columns) (found Columns, err error) {
	rows, seen := 0, map[string]string{}
	enough := errors.New("the columns are known")
	err = objects(ctx, src, func(row map[string]json.RawMessage) error {
		rows++
		news := rows == sampledRows
		for name, raw := range row {
			before, known := seen[name]
			now := heldBy(raw)
			if known && (before == "" || now != "" && before != nothing) || !known && (len(seen) == maxColumns || len(name) > maxNameSeen) {
				continue
			}
			seen[name], news = now, true
		}
		if rows < sampledRows || !news {
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
	case err == nil && rows == 0:
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

// heldBy says what a JSON value is, where it is no text.
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
