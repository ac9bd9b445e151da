package shard

import (
	"encoding/json"
	"strings"
)

// described is key.json, parsed once. A name that stands there twice, in whatever case, counts as encoding/json has it.
type described struct {
	raw     json.RawMessage // nil: there is no key.json
	members map[string]json.RawMessage
	broken  error // why raw is no object

	caption, captions, url, status json.RawMessage // whatever the case of their names
	twice                          bool            // one of these is there more than once
}

func describe(raw json.RawMessage) *described {
	d := &described{raw: raw}
	if len(raw) == 0 {
		return d
	}
	if d.broken = json.Unmarshal(raw, &d.members); d.broken != nil {
		d.members = nil
	}
	for name, value := range d.members {
		if into := d.field(name); into != nil {
			d.twice = d.twice || *into != nil
			*into = value
		}
	}
	return d
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
