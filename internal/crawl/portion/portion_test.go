package portion_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/portion"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestCut parts the options of a share from what names the source, and leaves those of stores.
func TestCut(t *testing.T) {
	named := filepath.Join(t.TempDir(), "a?sample=0.5")
	must.Do(t, os.WriteFile(named, nil, 0o600))
	for path, want := range map[string]struct{ place, share string }{
		"tars":                                {"tars", ""},
		"tars?sample=0.25":                    {"tars", "?sample=0.25&seed=0"},
		"tars/a.tar?seed=7&sample=2.5e-1":     {"tars/a.tar", "?sample=0.25&seed=7"},
		"file:///tars?sample=0.5":             {"file:///tars", "?sample=0.5&seed=0"},
		"s3://b/p/?sample=0.5&seed=3":         {"s3://b/p/", "?sample=0.5&seed=3"},
		"s3://b/p/?region=x&sample=0.5":       {"s3://b/p/?region=x", "?sample=0.5&seed=0"},
		"s3://b/p/?region=x&endpoint=http://": {"s3://b/p/?region=x&endpoint=http://", ""},
		"tars?copy=2":                         {"tars", "?copy=2"},
		"s3://b/p/?region=x&copy=1":           {"s3://b/p/?region=x", "?copy=1"},
		"tars?copy=1&seed=3&sample=0.5":       {"tars", "?sample=0.5&seed=3&copy=1"},
		named:                                 {named, ""},
	} {
		if place, share, err := portion.Cut(path); err != nil || place != want.place || share.String() != want.share {
			t.Errorf("%s: %s and %s (%v), want %s and %s", path, place, share, err, want.place, want.share)
		}
	}
	for path, want := range map[string]string{
		"tars?sample=2":                  `option sample is "2", want a share`,
		"tars?sample=0":                  `option sample is "0", want a share`,
		"tars?sample=NaN":                `option sample is "NaN", want a share`,
		"tars?seed=3":                    `option sample is "", want a share`,
		"tars?copy=0":                    `option copy is "0", want a number of 1..9`,
		"tars?copy=true":                 `option copy is "true", want a number`,
		"tars?copy=1&copy=2":             `option "copy": want sample, seed, copy, each once`,
		"tars?copy=1&seed=3":             `option seed is without effect`,
		"tars?sample=0.5&seed=-1":        `option seed is "-1", want a whole number`,
		"tars?samples=0.5":               `option "samples": want sample, seed, copy`,
		"tars?sample=0.5&sample=0.6":     `option "sample": want sample, seed, copy, each once`,
		"s3://b/p/?region=x&sample=half": `option sample is "half", want a share`,
	} {
		if _, _, err := portion.Cut(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: error %v, want %q in it", path, err, want)
		}
	}
}

// TestShareIsDrawnAtRandom holds that a share has about its part of the images and rows, that another seed draws others,
// and that a larger share of one seed holds the smaller one.
func TestShareIsDrawnAtRandom(t *testing.T) {
	share := func(text, seed string) portion.Share { return must.Get(portion.New(text, seed))(t) }
	quarter, other, half := share("0.25", "1"), share("0.25", "2"), share("0.5", "1")
	const n = 4000
	taken, both, rows := 0, 0, 0
	for i := range int64(n) {
		id := schemas.NewImageID([]byte{byte(i), byte(i >> 8)})
		if quarter.HasImage(id) {
			taken++
			if !half.HasImage(id) {
				t.Errorf("image %d is in a quarter, and not in the half of the same seed", i)
			}
			if other.HasImage(id) {
				both++
			}
		}
		if quarter.HasRow(i) {
			rows++
		}
		if all := (portion.Share{}); !all.HasImage(id) || !all.HasRow(i) {
			t.Errorf("image or row %d is not among all", i)
		}
	}
	const most = 6 * 27 // of 27, the deviation of a quarter of 4,000
	if taken < n/4-most || taken > n/4+most || rows < n/4-most || rows > n/4+most {
		t.Errorf("a quarter of %d images and rows is %d and %d", n, taken, rows)
	}
	if both < taken/8 || both > taken*3/8 {
		t.Errorf("two seeds share %d of %d images, want about a quarter", both, taken)
	}
}
