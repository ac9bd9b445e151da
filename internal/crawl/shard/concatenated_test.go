package shard_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestScanReadsOnBehindAnEndMarker has tars that were put behind one another, with and without other bytes between
// them.
func TestScanReadsOnBehindAnEndMarker(t *testing.T) {
	tarOf := func(caption string) []byte {
		return buildTar(t, member{name: "a.jpg", data: picture(t, 1)}, member{name: "a.txt", data: caption})
	}
	one, two := tarOf("one"), tarOf("two")
	zeros, junk := make([]byte, 10_240), bytes.Repeat([]byte("junk"), 300)
	long := buildTar(t, member{name: strings.Repeat("n", 300) + ".jpg"})
	marker := make([]byte, 1024)
	for _, c := range []struct {
		name       string
		parts      [][]byte
		want, said string
		offset     int // of the first problem
	}{
		{"two", [][]byte{one, two}, "a: one; a: two", "", 0},
		{"twice the same", [][]byte{one, one}, "a: one; a: one", "", 0},
		{"padded", [][]byte{one, zeros, two, zeros}, "a: one; a: two", "", 0},
		{"zeros alone", [][]byte{one, zeros, marker[:700]}, "a: one", "", 0},
		{"junk at the end", [][]byte{one, zeros, junk}, "a: one", "tar_header", len(one) + len(zeros)},
		{"a few bytes at the end", [][]byte{one, []byte("x")}, "a: one", "tar_header", len(one)},
		{"junk between", [][]byte{one, junk, make([]byte, 336), two}, "a: one; a: two", "tar_header", len(one)},
		{"cut in the second", [][]byte{one, two[:len(two)-1200-512]}, "a: one", "caption_missing tar_cut", 0},
		{"the second without its end", [][]byte{one, two[:len(two)-1024]}, "a: one; a: two", "tar_no_end", 0},
		{"a long name without its entry", [][]byte{one, long[:1024], marker, two}, "a: one; a: two", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := scan(t, slices.Concat(c.parts...))
			if got := f.captions(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := f.reasons(); got != c.said {
				t.Errorf("reasons %q, want %q: %v", got, c.said, f.problems)
			}
			if c.offset > 0 && (len(f.problems) == 0 || f.problems[0].Offset != int64(c.offset)) {
				t.Errorf("problems %v, want one at offset %d", f.problems, c.offset)
			}
		})
	}
}
