package shard

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// FuzzDescribe holds that an object has the members that encoding/json sees in it.
func FuzzDescribe(f *testing.F) {
	for _, s := range []string{
		`{"url":"https://example.org/a.jpg","width":256,"similarity":0.31,"nsfw":null,"tags":["a",{"b":1}]}`,
		`{"a":1,"a":[2]}`, `{"a":1,"A":2}`, `{"URL":"x","url":"y"}`, "{\"caption\":\"\xff\"}", "{\"\xff\":1,\"\xfe\":2}",
		`{"caption":"\ud800"}`, `{"\u0061":1,"a":2}`, `{}`, ` { } `, `{} {}`, `{},`, `null`, `[]`, `{"a":}`, `{"a":01}`, "\ufeff{}", "{\"a\":1}\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(compareMembers)
}

// TestDescribeDeep nests objects as deep as encoding/json allows, and deeper.
func TestDescribeDeep(t *testing.T) {
	for depth := 9_998; depth <= 10_002; depth++ {
		compareMembers(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
	}
}

func compareMembers(t *testing.T, raw []byte) {
	if len(raw) == 0 {
		return
	}
	var want map[string]json.RawMessage
	err := json.Unmarshal(raw, &want)
	d := describe(raw)
	if (d.broken == nil) != (err == nil) {
		t.Fatalf("error %v, want %v", d.broken, err)
	}
	if err != nil {
		want = nil
	}
	got := make(map[string]json.RawMessage)
	for _, m := range d.members {
		if _, twice := got[m.name]; twice {
			t.Errorf("%q comes twice", m.name)
		}
		got[m.name] = m.value
	}
	if !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("got %q, want %q", got, want)
	}
}
