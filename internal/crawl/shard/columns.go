package shard

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pairstream/pairstream/schemas"
)

// prune removes the columns that a pair may not carry, and returns nil if none is left: captions and addresses, which
// have their own fields, invalid columns, and, in the order of names, columns beyond the bound of a pair.
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

// hasField reports whether a pair has its own field for a column. Case is folded as encoding/json does.
func hasField(name string) bool {
	return strings.EqualFold(name, "caption") || strings.EqualFold(name, "captions") || strings.EqualFold(name, "url")
}

// lossy reports whether a decoder has replaced invalid bytes in a text.
func lossy(text string) bool { return strings.ContainsRune(text, utf8.RuneError) }

// columnsOf returns the columns that a pair may carry: the scalars of key.json, and those that only the table beside
// the tar has. Lists, objects and null are left out.
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

// scalarOf returns a JSON number, text or truth value. A number without a point or an exponent is an integer, if it
// fits.
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

// isPlainText reports whether a JSON value is a text of ASCII without escapes.
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

// described is key.json, parsed once. A repeated name, in whatever case, counts as in encoding/json.
type described struct {
	raw     json.RawMessage // nil: there is no key.json
	members []member
	broken  error // why raw is no object

	caption, captions, url, status json.RawMessage // whatever the case of their names
	twice                          bool            // one of these occurs more than once
}

// member is a name of a JSON object and its value. No two members of an object have the same name.
type member struct {
	name  string
	value json.RawMessage
}

func describe(raw json.RawMessage) *described {
	d := &described{raw: raw}
	if len(raw) == 0 {
		return d
	}
	var plain bool
	if d.members, plain = plainMembers(raw); !plain {
		d.members, d.broken = anyMembers(raw)
	}
	for _, m := range d.members {
		if into := d.field(m.name); into != nil {
			d.twice = d.twice || *into != nil
			*into = m.value
		}
	}
	return d
}

// usualMembers is the number of members that img2dataset writes for an image.
const usualMembers = 16

// plainMembers returns the members of an object whose names differ and are UTF-8, or false for any other value. It
// takes a third of the time that encoding/json takes.
func plainMembers(raw json.RawMessage) (members []member, ok bool) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, false
	}
	members = make([]member, 0, usualMembers)
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		end := d.InputOffset()
		m.value = raw[end-int64(len(value)) : end]
		members = append(members, m)
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, false
	}
	return members, len(bytes.TrimLeft(raw[d.InputOffset():], " \t\r\n")) == 0
}

// anyMembers returns the members of an object as encoding/json reads it. The last of several with the same name counts.
func anyMembers(raw json.RawMessage) ([]member, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	members := make([]member, 0, len(all))
	for name, value := range all {
		members = append(members, member{name, value})
	}
	return members, nil
}

// field returns the field of the struct for a name, or nil.
func (d *described) field(name string) *json.RawMessage {
	switch {
	case len(name) < len("url") || len(name) > len("captions")+1: // one letter has a form of two bytes
		return nil
	case strings.EqualFold(name, "caption"):
		return &d.caption
	case strings.EqualFold(name, "captions"):
		return &d.captions
	case strings.EqualFold(name, "url"):
		return &d.url
	case strings.EqualFold(name, "status"):
		return &d.status
	}
	return nil
}
