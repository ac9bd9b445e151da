package dataset_test

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestReadWinoground(t *testing.T) {
	dir := gallery(t)
	c := must.Get(dataset.ReadWinoground(t.Context(), textFile(t, `{"id": 0, "image_0": "COCO_3", "caption_0": "a dog bites a man", "image_1": "x/COCO_1.png", "caption_1": "a man bites a dog"}
{"image_0": "COCO_0", "caption_0": "one", "image_1": "COCO_3", "caption_1": "two", "tag": "Object"}
`), []string{dir}))(t)
	want := []struct {
		picture int
		caption string
	}{{3, "a dog bites a man"}, {1, "a man bites a dog"}, {0, "one"}, {3, "two"}}
	if c.Images() != len(want) || c.Pairs() != len(want) {
		t.Fatalf("%d images, %d captions", c.Images(), c.Pairs())
	}
	for i, w := range want {
		_, id := c.Image(i)
		caption, image, _ := c.Pair(i)
		if id != schemas.NewImageID(picture(t, w.picture)) || caption != w.caption || image != i {
			t.Errorf("image %d has caption %q of image %d, want picture %d with %q", i, caption, image, w.picture, w.caption)
		}
	}
}

func TestReadWinogroundRefuses(t *testing.T) {
	line := func(first, second string) string {
		return `{"image_0": "` + first + `", "caption_0": "one", "image_1": "` + second + `", "caption_1": "two"}`
	}
	dir := gallery(t)
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "is empty"},
		"a list":         {"[" + line("COCO_0", "COCO_1") + "]", "example 1 of"},
		"no image":       {line("COCO_0", "COCO_1") + "\n" + line("COCO_0", ""), "example 2 of"},
		"no caption":     {`{"image_0": "COCO_0", "caption_0": "one", "image_1": "COCO_1"}`, "lacks one of image_0, caption_0"},
		"a lost image":   {line("COCO_0", "COCO_1") + line("COCO_0", "COCO_99"), `no image "COCO_99" of example 2`},
		"a broken image": {line("COCO_6", "COCO_1"), `image "COCO_6" of example 1 cannot be decoded`},
		"an image twice": {line("COCO_5", "COCO_1"), `two images called "COCO_5"`},
	} {
		if _, err := dataset.ReadWinoground(t.Context(), textFile(t, c.text), []string{dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
