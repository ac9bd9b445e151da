package dataset

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

func FuzzList(f *testing.F) {
	for _, seed := range []string{
		`{"images": [{"filename": "1.jpg", "split": "test", "sentences": [{"raw": "a dog"}, {"raw": " "}]}], "dataset": "coco"}`,
		`[{"image": "val2014/1.jpg", "caption": ["a", "b"]}, {"image": "1.jpg", "caption": "c"}, {"image": "..", "caption": null}]`,
		`[null, 7, {"image": "\ud800", "caption": "\u0000"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := newList("list", "test")
		if shard.ReadEntries(bytes.NewReader(raw), l.add) != nil {
			return
		}
		for name, captions := range l.captions {
			if name == "" || name == ".." || strings.Contains(name, "/") || len(captions) == 0 {
				t.Errorf("%q has captions %q", name, captions)
			}
			if !l.spoken[name] && len(captions) > shard.MaxCaptions {
				t.Errorf("%q has %d captions", name, len(captions))
			}
			if slices.ContainsFunc(captions, func(c string) bool {
				return strings.TrimSpace(c) == "" || len(c) > schemas.MaxCaptionBytes || !utf8.ValidString(c)
			}) {
				t.Errorf("%q has captions %q", name, captions)
			}
		}
	})
}
