package shard

import "strings"

// Classed is an image with its class.
type Classed struct {
	Picture
	URI   string // of its tar
	Class string // key.cls without white space around it, or else "cls" in key.json; empty: neither
}

// classed returns an image with the class of its key.
func (s *scanner) classed(p Picture, cur sample) Classed {
	if cur.class == nil && cur.described != nil {
		cur.className = cur.described.class()
	}
	return Classed{p, s.uri, cur.className}
}

// class returns "cls" of key.json, a number or a text.
func (d *described) class() string {
	for _, m := range d.members {
		if m.name == "cls" && present(m.value) {
			return strings.Trim(string(m.value), `"`)
		}
	}
	return ""
}
