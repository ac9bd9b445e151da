// Package portion selects a random share of a source: `crawl/?sample=0.25&seed=7` stands for a quarter of the examples of
// the tars in a folder.
package portion

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Share is a random share of a source's examples. The zero value is all of them.
type Share struct {
	share float64 // 0: all
	seed  uint64
}

// Cut parts the options sample and seed from a path or URL. Other options stay where a URL has them. A file whose name
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
	options, err := url.ParseQuery(query)
	if err != nil || remote && !options.Has("sample") {
		return path, s, nil // opening the store tells what is wrong
	}
	for name, values := range options {
		if own := name == "sample" || name == "seed"; !own && !remote || own && len(values) > 1 {
			return path, s, fmt.Errorf("%s: option %q: want sample and seed, each once at most", path, name)
		}
	}
	if s, err = New(options.Get("sample"), options.Get("seed")); err != nil {
		return path, s, fmt.Errorf("%s: %w", path, err)
	}
	options.Del("sample")
	options.Del("seed")
	if len(options) > 0 {
		place += "?" + options.Encode()
	}
	return place, s, nil
}

// New reads the texts of both options. The seed is 0 where there is none.
func New(share, seed string) (s Share, err error) {
	s.share, err = strconv.ParseFloat(share, 64)
	if err != nil || !(s.share > 0 && s.share < 1) {
		return Share{}, fmt.Errorf("option sample is %q, want a share between 0 and 1, such as 0.25; a JSON list of images takes a number as well, such as 1e6", share)
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

// String returns the options as they stand behind a path, in one form for equal shares. It is empty for all.
func (s Share) String() string {
	if s.share == 0 {
		return ""
	}
	return fmt.Sprintf("?sample=%s&seed=%d", strconv.FormatFloat(s.share, 'g', -1, 64), s.seed)
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
