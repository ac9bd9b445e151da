package shard

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pairstream/pairstream/schemas"
)

// prune removes the columns that a pair may not carry, and returns nil if nothing is left. Captions and addresses have
// fields of their own. The rest is what no pair may hold, and what exceeds the bound of a pair, in the order of names.
func prune(all schemas.Columns) schemas.Columns {
	var room [schemas.MaxColumns]string
	kept, size := 0, 0
	for _, name := range all.Names(room[:0]) {
		value := all[name]
		text, _ := value.(string)
		more := size + schemas.ColumnBytes(name, value)
		if hasField(name) || lossy(name) || lossy(text) || kept == schemas.MaxColumns || more > schemas.MaxColumnsBytes ||
			schemas.ValidateColumn(name, value) != nil {
			delete(all, name)
			continue
		}
		kept, size = kept+1, more
	}
	if kept == 0 {
		return nil
	}
	return all
}

// hasField reports whether a pair has a field of its own for a column. Case is folded as encoding/json does.
func hasField(name string) bool {
	return strings.EqualFold(name, "caption") || strings.EqualFold(name, "captions") || strings.EqualFold(name, "url")
}

// lossy reports whether a decoder has put its replacement for bytes that are no text.
func lossy(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// columnsOf returns the scalars of key.json, and those that only the table beside the tar has, as far as a pair may carry
// them. Lists, objects and null are left out.
func columnsOf(members []member, row schemas.Columns) schemas.Columns {
	if len(members)+len(row) == 0 {
		return nil
	}
	all := make(schemas.Columns, len(members)+len(row))
	maps.Copy(all, row)
	for _, m := range members {
		if hasField(m.name) {
			continue
		}
		if value, ok := scalarOf(m.value); ok {
			all[m.name] = value
		}
	}
	return prune(all)
}

// scalarOf returns a JSON number, text or truth value. A number without a point or an exponent is an integer, if it fits.
func scalarOf(raw json.RawMessage) (any, bool) {
	switch text := string(raw); {
	case text == "true" || text == "false":
		return text == "true", true
	case isPlainText(text):
		return text[1 : len(text)-1], true
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

// isPlainText reports whether a JSON value is a text of ASCII that stands for itself.
func isPlainText(raw string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	for _, c := range []byte(raw[1 : len(raw)-1]) {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}
