package dataset_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// gallery writes tars of pictures 0 to 7 without captions, as COCO's and Flickr30k's archives are. Picture 5 is in both
// tars, and picture 6 is not an image.
func gallery(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for n, pictures := range [][]int{{0, 1, 2, 3, 5}, {4, 5, 6, 7}} {
		var buf bytes.Buffer
		w := shard.NewWriter(&buf)
		for _, k := range pictures {
			data := picture(t, k)
			if k == 6 {
				data = []byte("<html>")
			}
			must.Get(w.Write(fmt.Sprintf("images/COCO_%d", k), shard.File{Ext: "png", Data: data}))(t)
		}
		must.Get(w.Write("images/COCO_7", shard.File{Ext: "txt", Data: []byte("a caption that the list does not have")}))(t)
		must.Do(t, w.Close())
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.tar", n)), buf.Bytes(), 0o600))
	}
	return dir
}

func listFile(t *testing.T, json string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dataset_coco.json")
	must.Do(t, os.WriteFile(path, []byte(json), 0o600))
	return path
}

// readListed returns a line "picture: captions" for every image.
func readListed(t *testing.T, dir, file, split string) (lines []string, totals shard.Totals) {
	t.Helper()
	l := must.Get(dataset.ReadList(file, split))(t)
	c := must.Get(dataset.ReadListed(t.Context(), []string{dir}, l))(t)
	number := map[schemas.ImageID]int{}
	for k := range 8 {
		number[schemas.NewImageID(picture(t, k))] = k
	}
	captions := make([][]string, c.Images())
	for i := range c.Pairs() {
		text, image, _ := c.Pair(i)
		captions[image] = append(captions[image], text)
	}
	for i, texts := range captions {
		_, id := c.Image(i)
		lines = append(lines, fmt.Sprintf("%d: %s", number[id], strings.Join(texts, "|")))
	}
	return lines, c.Totals()
}

func TestReadListed(t *testing.T) {
	const karpathy = `{"dataset": "coco", "images": [
		{"filename": "COCO_2.png", "filepath": "val2014", "split": "test", "cocoid": 2, "sentences": [{"raw": " A dog. ", "tokens": ["a", "dog"]}, {"raw": "Two dogs."}]},
		{"filename": "COCO_0.png", "split": "val", "sentences": [{"raw": "a cat"}]},
		{"filename": "COCO_4.png", "split": "test", "sentences": [{"raw": "a house"}, {"raw": "a house"}]}
	], "info": {"images": [1]}}`
	for _, c := range []struct {
		name, json, split string
		want              []string
		problems          map[shard.Reason]int
	}{
		{"Karpathy's test", karpathy, "test", []string{"2: A dog.|Two dogs.", "4: a house|a house"}, nil},
		{"Karpathy's val", karpathy, "val", []string{"0: a cat"}, nil},
		{"ALBEF's test", `[{"image": "val2014/COCO_7.png", "caption": ["x", "y"]}, {"image": "COCO_1.png", "caption": ["z"]}]`, "test", []string{"1: z", "7: x|y"}, nil},
		{
			"ALBEF's training list", `[{"image": "COCO_1.png", "caption": "x", "image_id": "1"}, {"image": "COCO_2.png", "caption": "y"}, {"image": "COCO_1.png", "caption": "z"}]`,
			"train",
			[]string{"1: x|z", "2: y"},
			nil,
		},
		{"an image in two tars", `[{"image": "COCO_5.png", "caption": "x"}]`, "test", []string{"5: x"}, map[shard.Reason]int{shard.ReasonDuplicate: 1}},
		{
			"missing and broken images", `[{"image": "COCO_1.png", "caption": "x"}, {"image": "COCO_6.png", "caption": "y"}, {"image": "COCO_8.png", "caption": "z"}]`,
			"test",
			[]string{"1: x"},
			map[shard.Reason]int{shard.ReasonImage: 1, shard.ReasonNoImage: 1},
		},
		{
			"names given twice", `{"images": [{"filename": "COCO_1.png", "split": "test", "sentences": [{"raw": "x"}]}, {"filename": "a/COCO_1.png", "split": "test", "sentences": [{"raw": "y"}]},
				{"filename": "COCO_1.png", "split": "val", "sentences": [{"raw": "z"}]}]}`, "test", []string{"1: x"}, map[shard.Reason]int{shard.ReasonDuplicate: 1},
		},
		{
			"no sentences", `{"images": [{"filename": "COCO_1.png", "split": "test", "sentences": [{"raw": "x"}]}, {"filename": "COCO_2.png", "split": "test", "sentences": []},
				{"filename": "COCO_3.png", "split": "test"}, {"filename": "COCO_4.png", "split": "test", "sentences": [{"raw": " "}, {"raw": 7}, {}]}]}`,
			"test",
			[]string{"1: x"},
			map[shard.Reason]int{shard.ReasonNoCaption: 2, shard.ReasonNoText: 1, shard.ReasonJSON: 2},
		},
		{
			"entries of other shapes", `[7, null, {"image": 7, "caption": "x"}, {"image": "..", "caption": "x"}, {"caption": "x"}, {"image": "COCO_1.png", "caption": null},
				{"image": "COCO_2.png", "caption": {}}, {"image": "COCO_3.png", "caption": ["x", "` + "\xff" + `"]}]`,
			"test",
			[]string{"3: x"},
			map[shard.Reason]int{shard.ReasonJSON: 6, shard.ReasonNoCaption: 1, shard.ReasonEncoding: 1},
		},
		{
			"very many captions", `[{"image": "COCO_1.png", "caption": ["x"` + strings.Repeat(`,"x"`, shard.MaxCaptions) + `]}]`,
			"test",
			[]string{"1: x" + strings.Repeat("|x", shard.MaxCaptions-1)},
			map[shard.Reason]int{shard.ReasonMany: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, totals := readListed(t, gallery(t), listFile(t, c.json), c.split)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if c.problems == nil {
				c.problems = map[shard.Reason]int{}
			}
			if fmt.Sprint(totals.Problems) != fmt.Sprint(c.problems) {
				t.Errorf("problems %v, want %v", totals.Problems, c.problems)
			}
		})
	}
}

func TestReadListedRefuses(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{"no JSON", "<html>", "want Karpathy's"},
		{"nothing", "", "unexpected EOF"},
		{"a number", "7", "neither an object nor a list"},
		{"cut in a list", `[{"image": "COCO_1.png", "caption": "x"},`, "unexpected EOF"},
		{"cut behind an entry", `{"images": [{"filename": "COCO_1.png", "split": "test", "sentences": [{"raw": "x"}]}`, "unexpected EOF"},
		{"cut behind the list", `{"images": [{"filename": "COCO_1.png", "split": "test", "sentences": [{"raw": "x"}]}]`, "unexpected EOF"},
		{"images that are no list", `{"images": {}}`, `"images" is not a list`},
		{"another format", `{"annotations": [{"image_id": 1, "caption": "x"}], "images": [{"file_name": "COCO_1.png"}]}`, "no image with a caption"},
		{"no such split", `{"images": [{"filename": "COCO_1.png", "split": "train", "sentences": [{"raw": "x"}]}, {"filename": "x", "split": "restval"}]}`, `of split "test"; its splits are restval, train`},
		{"no image in the tars", `[{"image": "b.png", "caption": "x"}, {"image": "a.png", "caption": "x"}]`, `no readable image of the 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := dataset.ReadList(listFile(t, c.json), "test")
			if err == nil {
				_, err = dataset.ReadListed(t.Context(), []string{gallery(t)}, l)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := dataset.ReadList("/nowhere.json", "test"); err == nil || !strings.Contains(err.Error(), "/nowhere.json") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestReadListedAsProgramsWriteIt has a byte order mark, and numbers that JSON does not have.
func TestReadListedAsProgramsWriteIt(t *testing.T) {
	const list = "\xef\xbb\xbf" + `[{"image": "COCO_2.png", "caption": "NaN and a dog", "score": NaN, "box": [Infinity, -Infinity]}]`
	if lines, _ := readListed(t, gallery(t), listFile(t, list), ""); !slices.Equal(lines, []string{"2: NaN and a dog"}) {
		t.Errorf("lines %q", lines)
	}
}
