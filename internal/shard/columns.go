package shard

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pairstream/pairstream/schemas"
)

// BoundColumns returns those of the columns that a pair may carry, in the order of their names. It leaves out
// captions and addresses (a pair has fields for these), what no pair may hold, and what exceeds the bound of a pair. It
// returns nil if nothing is left.
func BoundColumns(all schemas.Columns) schemas.Columns {
	var out schemas.Columns
	size := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		if hasField(name) || lossy(name) || schemas.ValidateColumn(name, value) != nil {
			continue
		}
		if text, ok := value.(string); ok && lossy(text) {
			continue
		}
		more := size + schemas.ColumnBytes(name, value)
		if len(out) == schemas.MaxColumns || more > schemas.MaxColumnsBytes {
			continue
		}
		if out == nil {
			out = schemas.Columns{}
		}
		out[name], size = value, more
	}
	return out
}

// hasField reports whether a pair has a field of its own for a column. Case is folded as encoding/json does.
func hasField(name string) bool {
	return strings.EqualFold(name, "caption") || strings.EqualFold(name, "captions") || strings.EqualFold(name, "url")
}

// lossy reports whether a decoder has put its replacement for bytes that are no text.
func lossy(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// columnsOf returns the scalars of key.json, and those that only the table beside the tar has, as far as a pair may carry
// them. Lists, objects and null are left out.
func columnsOf(meta json.RawMessage, row schemas.Columns) schemas.Columns {
	var members map[string]json.RawMessage
	if len(meta) > 0 && json.Unmarshal(meta, &members) != nil {
		members = nil
	}
	if len(members)+len(row) == 0 {
		return nil
	}
	all := schemas.Columns{}
	maps.Copy(all, row)
	for name, raw := range members {
		if value, ok := scalarOf(raw); ok {
			all[name] = value
		}
	}
	return BoundColumns(all)
}

// scalarOf returns a JSON number, text or truth value. A number without a point or an exponent is an integer, if it fits.
func scalarOf(raw json.RawMessage) (any, bool) {
	switch text := string(raw); {
	case text == "true" || text == "false":
		return text == "true", true
	case strings.HasPrefix(text, `"`):
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case text == "" || text == "null" || text[0] == '[' || text[0] == '{':
		return nil, false
	default:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
		f, err := strconv.ParseFloat(text, 64)
		return f, err == nil
	}
}
