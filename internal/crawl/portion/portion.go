// Package portion selects a random share of a source: `crawl/?sample=0.25&seed=7` stands for a quarter of the examples of
// the tars in a folder. With copy=1 its pairs are further samples beside those of another source with the same pairs.
package portion

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Share is a random share of a source's examples. The zero value is all of them.
type Share struct {
	share float64 // 0: all
	seed  uint64
	copy  int // number of the copy that its pairs are; 0: the pairs themselves
}

// maxCopy bounds the copies of a pair, each of which makes its caption a byte longer.
const maxCopy = 9

// options are the names of the options of a share.
var options = []string{"sample", "seed", "copy"}

// Cut parts the options sample, seed and copy from a path or URL. A URL keeps its other options. A file whose name
// contains the question mark keeps its name.
func Cut(path string) (place string, s Share, err error) {
	place, query, found := strings.Cut(path, "?")
	if !found {
		return path, s, nil
	}
	remote := strings.Contains(place, "://") && !strings.HasPrefix(place, "file://")
	if _, err := os.Lstat(path); err == nil {
		return path, s, nil
	}
	given, err := url.ParseQuery(query)
	if err != nil || remote && !given.Has("sample") && !given.Has("copy") {
		return path, s, nil // opening the store tells what is wrong
	}
	for name, values := range given {
		if own := slices.Contains(options, name); !own && !remote || own && len(values) > 1 {
			return path, s, fmt.Errorf("%s: option %q: want %s, each once at most", path, name, strings.Join(options, ", "))
		}
	}
	if s, err = of(given); err != nil {
		return path, s, fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range options {
		given.Del(name)
	}
	if len(given) > 0 {
		place += "?" + given.Encode()
	}
	return place, s, nil
}

// of reads the options of a share. A copy needs no sample.
func of(given url.Values) (s Share, err error) {
	if given.Has("sample") || !given.Has("copy") {
		if s, err = New(given.Get("sample"), given.Get("seed")); err != nil {
			return s, err
		}
	} else if given.Has("seed") {
		return s, errors.New("option seed is without effect: want sample beside it")
	}
	if !given.Has("copy") {
		return s, nil
	}
	return s.Copy(given.Get("copy"))
}

// Copy returns the share as the copy with a number, from its text.
func (s Share) Copy(number string) (Share, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxCopy {
		return s, fmt.Errorf("option copy is %q, want a number of 1..%d", number, maxCopy)
	}
	s.copy = n
	return s, nil
}

// Caption returns a caption of the source. A pair is known by its image and its caption. So that a copy is a sample of its
// own, its caption ends in as many spaces as the copy's number says, of which no tokenizer makes a token.
func (s Share) Caption(text string) string { return text + strings.Repeat(" ", s.copy) }

// IsCopy reports whether the pairs are a copy.
func (s Share) IsCopy() bool { return s.copy > 0 }

// New reads the texts of both options. The seed is 0 where there is none.
func New(share, seed string) (s Share, err error) {
	s.share, err = strconv.ParseFloat(share, 64)
	if err != nil || !(s.share > 0 && s.share < 1) {
		return Share{}, fmt.Errorf("option sample is %q, want a share between 0 and 1, such as 0.25; "+
			"a JSON list of images takes a number as well, such as 1e6", share)
	}
	s.seed, err = Seed(seed)
	return s, err
}

// Seed reads the option seed; empty: 0.
func Seed(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("option seed is %q, want a whole number", text)
	}
	return seed, nil
}

// Set adds the options to those of a URL.
func (s Share) Set(options url.Values) {
	if s.share != 0 {
		options.Set("sample", strconv.FormatFloat(s.share, 'g', -1, 64))
		options.Set("seed", strconv.FormatUint(s.seed, 10))
	}
	if s.copy > 0 {
		options.Set("copy", strconv.Itoa(s.copy))
	}
}

// String returns the options as they stand behind a path, in one form for equal shares. It is empty for all.
func (s Share) String() string {
	var out []string
	if s.share != 0 {
		out = append(out, fmt.Sprintf("sample=%s&seed=%d", strconv.FormatFloat(s.share, 'g', -1, 64), s.seed))
	}
	if s.copy > 0 {
		out = append(out, fmt.Sprintf("copy=%d", s.copy))
	}
	if len(out) == 0 {
		return ""
	}
	return "?" + strings.Join(out, "&")
}

// HasImage reports whether an image belongs to the share. It depends on the seed and the image's bytes alone, so that
// all copies of an image belong to it or none, in whatever tar and order they come.
func (s Share) HasImage(id schemas.ImageID) bool {
	return s.has(int64(binary.LittleEndian.Uint64(id[:8])), int64(binary.LittleEndian.Uint64(id[8:])))
}

// HasRow reports whether the row with a number, from 0, belongs to the share of a table.
func (s Share) HasRow(number int64) bool { return s.has(number) }

func (s Share) has(keys ...int64) bool {
	return s.share == 0 || rng.New(s.seed, "crawl.sample", keys...).Float64() < s.share
}
