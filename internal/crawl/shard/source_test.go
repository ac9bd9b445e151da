package shard

import (
	"encoding/json"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// The source of a pair is what encoding/json reads as "url", whatever its case, or that of the table.
func TestSourceOfAPair(t *testing.T) {
	row := schemas.Columns{"url": "of the table"}
	for meta, want := range map[string]string{
		``:                                   "of the table",
		`{}`:                                 "of the table",
		`null`:                               "of the table",
		`{"url":null}`:                       "of the table",
		`{"url":"http://a/"}`:                "http://a/",
		`{"URL":"http://a/"}`:                "http://a/",
		`{"url":"a","Url":"b"}`:              "b",
		`{"URL":"a","url":"b"}`:              "b",
		`{"url":"a","url":"b"}`:              "b",
		`{"url":"http:\/\/a\u002f"}`:         "http://a/",
		`{"url":"http://\u00e4/","width":3}`: "http://ä/",
		`{"url":""}`:                         "x.tar#k",
		`{"url":7}`:                          "x.tar#k",
		`{"url":["a"]}`:                      "x.tar#k",
		`["url"]`:                            "x.tar#k",
		`{"url":"a"`:                         "x.tar#k",
		"{\"url\":\"a\xff\"}":                "a\uFFFD",
	} {
		ex := Example{Key: "k", Image: schemas.ImageRef{URI: "file:///d/x.tar"}, Captions: []string{"c"}, Meta: json.RawMessage(meta), Row: row}
		if got := Pairs(ex)[0].Source; got != want {
			t.Errorf("%s: the source is %q, want %q", meta, got, want)
		}
	}
}
