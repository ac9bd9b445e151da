package shard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestScanFindsClasses reads classes as webdataset writes them, and images without one.
func TestScanFindsClasses(t *testing.T) {
	im := picture(t, 1)
	for _, c := range []struct {
		name    string
		members []member
		want    string
		reasons string
	}{
		{"cls after the image", []member{{name: "a.jpg", data: im}, {name: "a.cls", data: "3"}}, "a.jpg=3", ""},
		{"cls before the image", []member{{name: "a.cls", data: " 12\n"}, {name: "a.png", data: im}}, "a.png=12", ""},
		{"captions do not matter", []member{{name: "a.jpg", data: im}, {name: "a.txt", data: ""}, {name: "a.cls", data: "0"}}, "a.jpg=0", ""},
		{"a number in the json", []member{{name: "a.json", data: `{"cls": 7}`}, {name: "a.jpg", data: im}}, "a.jpg=7", ""},
		{"a text in the json", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"cls": "8"}`}}, "a.jpg=8", ""},
		{"null in the json", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"cls": null}`}}, "a.jpg=", ""},
		{"cls goes before json", []member{{name: "a.jpg", data: im}, {name: "a.json", data: `{"cls": 7}`}, {name: "a.cls", data: "1"}}, "a.jpg=1", ""},
		{"none", []member{{name: "n01/a.jpg", data: im}, {name: "n02/a.jpg", data: im}}, "n01/a.jpg= n02/a.jpg=", ""},
		{"a class without an image", []member{{name: "a.cls", data: "3"}, {name: "b.jpg", data: im}, {name: "b.cls", data: "4"}}, "b.jpg=4", ""},
		{"two classes", []member{{name: "a.cls", data: "3"}, {name: "a.jpg", data: im}, {name: "a.cls", data: "4"}}, "a.jpg=3", "entry_duplicate"},
		{"an empty image", []member{{name: "a.jpg"}, {name: "a.cls", data: "3"}}, "", "image_empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeFile(t, t.TempDir(), "00000.tar", buildTar(t, c.members...))
			var got, reasons []string
			must.Get(shard.Scan(t.Context(), []string{path}, shard.Visitor{
				Classed: func(p shard.Classed) error {
					if p.ImageID != schemas.NewImageID(p.Encoded) || p.URI != shard.FileURI(path) {
						t.Errorf("%s: id %v, tar %s", p.Entry, p.ImageID, p.URI)
					}
					got = append(got, fmt.Sprintf("%s=%s", p.Entry, p.Class))
					return nil
				},
				Problem: func(p shard.Problem) error { reasons = append(reasons, string(p.Reason)); return nil },
			}))(t)
			if strings.Join(got, " ") != c.want || strings.Join(reasons, " ") != c.reasons {
				t.Errorf("%q with problems %q, want %q with %q", got, reasons, c.want, c.reasons)
			}
		})
	}
	if f := scan(t, buildTar(t, member{name: "a.jpg", data: im}, member{name: "a.cls", data: "3"}, member{name: "a.txt", data: "one"})); f.captions() != "a: one" ||
		!slices.Contains(f.totals.UnreadLines(), `1 other files were ignored; the first is "a.cls of `+f.examples[0].Image.URI+`"`) {
		t.Errorf("without Classed: %q, %q", f.captions(), f.totals.UnreadLines())
	}
}
