package shard

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// described is key.json, parsed once. A name that stands there twice, in whatever case, counts as encoding/json has it.
type described struct {
	raw     json.RawMessage // nil: there is no key.json
	members []member
	broken  error // why raw is no object

	caption, captions, url, status json.RawMessage // whatever the case of their names
	twice                          bool            // one of these is there more than once
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

// usualMembers is the room for what img2dataset writes of an image.
const usualMembers = 16

// plainMembers returns the members of an object whose names differ and are UTF-8, or false for any other value. It takes a
// third of the time that encoding/json takes.
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
		m.value = json.RawMessage(raw[end-int64(len(value)) : end])
		members = append(members, m)
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return nil, false
	}
	return members, len(bytes.TrimLeft(raw[d.InputOffset():], " \t\r\n")) == 0
}

// anyMembers returns the members of an object as encoding/json reads it. Of those with the same name, the last counts.
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

// field returns the field that has a name of its own, or nil.
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
