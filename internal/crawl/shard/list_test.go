package shard_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// listed is what a scan of a list finds.
type listed struct {
	pairs    []string // file name: caption
	problems []string // entry: reason
	images   []shard.Example
	err      error
}

func scanList(t *testing.T, path string) (l listed) {
	t.Helper()
	_, l.err = shard.Scan(t.Context(), []string{path}, shard.Visitor{
		Example: func(ex shard.Example) error {
			ex.Encoded = nil
			l.images = append(l.images, ex)
			for _, c := range ex.Captions {
				l.pairs = append(l.pairs, filepath.Base(ex.Image.URI)+": "+c)
			}
			return nil
		},
		Problem: func(p shard.Problem) error {
			l.problems = append(l.problems, p.Entry+": "+string(p.Reason))
			return nil
		},
	})
	return l
}

// pictureFolder has pictures train/0.png to train/9.png, each another one.
func pictureFolder(t *testing.T) string {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Do(t, os.Mkdir(filepath.Join(dir, "train"), 0o755))
	for i := range 10 {
		var b bytes.Buffer
		im := image.NewGray(image.Rect(0, 0, 8, 8))
		im.Pix[i] = 255
		must.Do(t, png.Encode(&b, im))
		must.Do(t, os.WriteFile(filepath.Join(dir, "train", fmt.Sprintf("%d.png", i)), b.Bytes(), 0o600))
	}
	return dir
}

func writeList(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.json")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A folder may have a plus or a space in its name, as people write it.
func TestFoldersOfListsAreNamedAsTheyAre(t *testing.T) {
	dir := filepath.Join(pictureFolder(t), "c+d e")
	must.Do(t, os.Rename(filepath.Dir(dir)+"/train", dir))
	l := scanList(t, writeList(t, `[{"image": "0.png", "caption": "a"}]`)+"?sample=1e+0&images="+dir)
	if want := []string{"0.png: a"}; l.err != nil || !slices.Equal(l.pairs, want) {
		t.Errorf("%v, pairs %q, want %q", l.err, l.pairs, want)
	}
}

// A list of ALBEF's names images from its authors' machine. Their files are found by the ends of their paths.
func TestALBEFListIsScanned(t *testing.T) {
	dir := pictureFolder(t)
	path := writeList(t, "\ufeff"+`[{"image": "/export/share/coco/train/0.png", "caption": "a dog", "score": NaN},
		{"image": "/export/share/coco/train/1.png", "caption": ["a cat", " two cats ", "a cat"]},
		{"image": "train/2.png", "caption": "say \"NaN\\\" and -Infinity"}, {"image": "train\\3.png", "caption": null, "x": -Infinity}]`)
	l := scanList(t, path+"?images="+dir)
	must.Do(t, l.err)
	if want := []string{"0.png: a dog", "1.png: a cat", "1.png: two cats", `2.png: say "NaN\" and -Infinity`}; !slices.Equal(l.pairs, want) {
		t.Errorf("pairs %q, want %q", l.pairs, want)
	}
	if want := []string{`train\3.png: caption_missing`}; !slices.Equal(l.problems, want) {
		t.Errorf("problems %q, want %q", l.problems, want)
	}
	bucket := must.Get(shard.OpenBucket(t.Context(), must.Get(shard.Roots([]string{path + "?images=" + dir}))(t), nil))(t)
	defer bucket.Close()
	for _, ex := range l.images {
		if got := must.Get(bucket.ReadRange(t.Context(), ex.Image, ex.ImageID))(t); schemas.NewImageID(got) != ex.ImageID {
			t.Errorf("%s: a reader finds other bytes", ex.Image.URI)
		}
	}
}

func TestKarpathysSplitsAreScanned(t *testing.T) {
	dir := pictureFolder(t)
	path := writeList(t, `{"dataset": "coco", "images": [
		{"filepath": "train", "filename": "0.png", "split": "train", "sentences": [{"raw": "a"}, {"raw": "b"}]},
		{"filepath": "train", "filename": "1.png", "split": "restval", "sentences": [{"raw": "c"}]},
		{"filepath": "train", "filename": "2.png", "split": "test", "sentences": [{"raw": "d"}]}]}`)
	l := scanList(t, path+"?split=train,restval&images="+dir)
	if want := []string{"0.png: a", "0.png: b", "1.png: c"}; l.err != nil || !slices.Equal(l.pairs, want) {
		t.Errorf("%v, pairs %q, want %q", l.err, l.pairs, want)
	}
	if l := scanList(t, path+"?split=val&images="+dir); l.err == nil || !strings.Contains(l.err.Error(), `no entry is of split val; there are ["restval" "test" "train"]`) {
		t.Errorf("an unknown split: %v", l.err)
	}
}

// What is drawn from a list depends on the seed alone, and a sample has its size.
func TestDrawsFromAListAreSeeded(t *testing.T) {
	dir := pictureFolder(t)
	var entries []string
	for i := range 10 {
		entries = append(entries, fmt.Sprintf(`{"image": "%d.png", "caption": ["a%d", "b%d", "c%d"]}`, i, i, i, i))
	}
	path := writeList(t, "["+strings.Join(entries, ",")+"]") + "?images=" + filepath.Join(dir, "train")
	var drawn []string
	counts := map[string]int{}
	for seed := range 40 {
		options := fmt.Sprintf("&captions=one&sample=4&seed=%d", seed)
		l := scanList(t, path+options)
		if again := scanList(t, path+options); l.err != nil || len(l.pairs) != 4 || !slices.Equal(l.pairs, again.pairs) {
			t.Fatalf("seed %d: %v, %q and then %q, want the same 4 pairs", seed, l.err, l.pairs, again.pairs)
		}
		drawn = append(drawn, strings.Join(l.pairs, ", "))
		for _, p := range l.pairs {
			counts[p[:1]]++
			counts[p[7:8]]++
		}
	}
	if slices.Sort(drawn); len(slices.Compact(drawn)) < 30 {
		t.Errorf("40 seeds draw %d different samples", len(slices.Compact(drawn)))
	}
	for what := range strings.SplitSeq("0123456789abc", "") { // 16 of each picture and 53 of each caption are expected
		if counts[what] < 4 {
			t.Errorf("%s is drawn %d times of 160", what, counts[what])
		}
	}
	if l := scanList(t, path+"&sample=1e1"); l.err != nil || len(l.images) != 10 {
		t.Errorf("all 10 of a sample: %v, %d images", l.err, len(l.images))
	}
	if l := scanList(t, path+"&sample=11"); l.err == nil || !strings.Contains(l.err.Error(), "sample is 11, and there are 10 entries") {
		t.Errorf("a sample of more than all: %v", l.err)
	}
}

// A stranger's list names no file outside the folder of its images, and holds up nothing.
func TestListOfAStranger(t *testing.T) {
	dir := pictureFolder(t)
	secret := filepath.Join(t.TempDir(), "secret.png")
	must.Do(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must.Do(t, os.Symlink(secret, filepath.Join(dir, "link.png")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe.png"), 0o600))
	must.Do(t, os.Truncate(filepath.Join(dir, "train", "9.png"), 1<<40))
	path := writeList(t, `[null, 7, {"image": 3}, {"image": "../../etc/passwd", "caption": "a"}, {"image": "link.png", "caption": "a"},
		{"image": "pipe.png", "caption": "a"}, {"image": "/etc/passwd", "caption": "a"}, {"image": "`+secret+`", "caption": "a"},
		{"image": "train/9.png", "caption": "a"}, {"image": "train/1.png", "caption": {"a": 1}}, {"image": "train", "caption": "a"},
		{"image": "train/2.png", "caption": ["\ud800", 3, "", "good"]}]`)
	l := scanList(t, path+"?images="+dir)
	must.Do(t, l.err)
	want := []string{
		": caption_json", ": caption_json", ": caption_json", "../../etc/passwd: entry_name", "link.png: image_missing", "pipe.png: image_missing",
		"/etc/passwd: image_missing", secret + ": image_missing", "train/9.png: entry_oversize", "train/1.png: caption_json", "train: image_missing",
		"train/2.png: caption_json", "train/2.png: caption_empty",
	}
	if !slices.Equal(l.problems, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(l.problems, "\n"), strings.Join(want, "\n"))
	}
	if len(l.pairs) != 2 || l.pairs[1] != "2.png: good" {
		t.Errorf("pairs %q", l.pairs)
	}
}

func TestListsThatCannotBeRead(t *testing.T) {
	dir := pictureFolder(t)
	good := `{"image": "0.png", "caption": "a"}`
	for name, c := range map[string]struct{ text, options, want string }{
		"cut":                  {"[" + good + ", " + good[:20], "?images=" + dir + "/train", "unexpected EOF"},
		"of another form":      {`{"annotations": []}`, "", "want Karpathy's"},
		"no JSON":              {"a,b\n", "", "invalid character"},
		"images elsewhere":     {"[" + good + "]", "", "?images=FOLDER"},
		"an entry without end": {`[{"image": "0.png", "caption": "` + strings.Repeat("x", 9<<20) + `"}]`, "?images=" + dir + "/train", "a row or an entry is too long"},
		"an unknown option":    {"[" + good + "]", "?image=" + dir, `option "image" of a JSON list: want each of images, split, captions, sample, seed`},
		"an odd sample":        {"[" + good + "]", "?sample=1.5", `option sample is "1.5"`},
		"odd captions":         {"[" + good + "]", "?captions=two", `option captions is "two", want all or one`},
		"an odd seed":          {"[" + good + "]", "?seed=x", `option seed is "x"`},
		"no such folder":       {"[" + good + "]", "?images=" + dir + "/none", "option images"},
	} {
		t.Run(name, func(t *testing.T) {
			if l := scanList(t, writeList(t, c.text)+c.options); l.err == nil || !strings.Contains(l.err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", l.err, c.want)
			}
		})
	}
}
