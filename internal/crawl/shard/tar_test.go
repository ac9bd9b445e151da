package shard

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// failing is a file that cannot be read from some offset on.
type failing struct {
	size, from int64
	err        error
}

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	n := min(int64(len(p)), max(0, f.from-at))
	clear(p[:n])
	if n < int64(len(p)) {
		return int(n), f.err
	}
	return int(n), nil
}

// TestScanStopsOnAFaultOfTheDisk tells a disk that fails from a tar that is damaged.
func TestScanStopsOnAFaultOfTheDisk(t *testing.T) {
	fault := errors.New("input/output error")
	for _, from := range []int64{0, 100, 512, windowBytes} {
		s := &scanner{
			v:      Visitor{Example: func(Example) error { return nil }, Problem: func(Problem) error { return nil }},
			totals: &Totals{Problems: map[Reason]int{}},
		}
		// Zeros read as an end marker, behind which another tar may lie.
		if err := s.walk(context.Background(), failing{size: 1 << 20, from: from, err: fault}, 1<<20); !errors.Is(err, fault) {
			t.Errorf("failing from %d: %v", from, err)
		}
	}
	shrunk := &scanner{
		v:      Visitor{Problem: func(Problem) error { return nil }},
		totals: &Totals{Problems: map[Reason]int{}},
	}
	if err := shrunk.walk(context.Background(), failing{from: 100, err: io.EOF}, 1<<20); err != nil || shrunk.totals.Problems[ReasonCut] != 1 {
		t.Errorf("a file that shrank: %v, %+v", err, shrunk.totals)
	}
}

// TestScanOfATarThatEndsBehindALongName has the header of a long name, and no entry of that name.
func TestScanOfATarThatEndsBehindALongName(t *testing.T) {
	for _, format := range []tar.Format{tar.FormatGNU, tar.FormatPAX} {
		var buf bytes.Buffer
		must.Do(t, tar.NewWriter(&buf).WriteHeader(&tar.Header{Name: strings.Repeat("n", 300) + ".png", Typeflag: tar.TypeReg, Format: format}))
		s := &scanner{v: Visitor{Problem: func(Problem) error { return nil }}, totals: &Totals{Problems: map[Reason]int{}}}
		cut := buf.Bytes()[:buf.Len()-blockSize]
		if err := s.walk(t.Context(), bytes.NewReader(cut), int64(len(cut))); err != nil || s.totals.Problems[ReasonCut] != 1 {
			t.Errorf("%v: error %v, problems %v, want that the tar is cut", format, err, s.totals.Problems)
		}
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string][2]string{
		"a.jpg": {"a", "jpg"}, "a/b.seg.PNG": {"a/b", "seg.png"}, "./x/a.TXT": {"x/a", "txt"}, "a": {"", ""},
		".jpg": {"", ""}, "a/.jpg": {"", ""}, "": {"", ""}, "a.": {"a", ""}, "v1.2/a.jpg": {"v1.2/a", "jpg"},
	} {
		if key, ext := splitName(name); key != want[0] || ext != want[1] {
			t.Errorf("%q: key %q, extension %q, want %q", name, key, ext, want)
		}
	}
}
