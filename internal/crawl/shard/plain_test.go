package shard

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// judged returns what a header block is to archive/tar.
func judged(block []byte) (entry, bool) {
	h, err := tar.NewReader(bytes.NewReader(block)).Next()
	if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
		return entry{}, false
	}
	return entry{name: h.Name, typeflag: h.Typeflag, data: blockSize, size: h.Size}, true
}

// headers returns blocks of the formats that writers use.
func headers(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatGNU} {
		for _, name := range []string{"000000001.jpg", "a b.txt", strings.Repeat("n", 100), strings.Repeat("d", 60) + "/" + strings.Repeat("n", 80), "../x.png", "/y"} {
			for _, size := range []int64{0, 1, 511, 1 << 20, 8<<30 - 1} {
				var buf bytes.Buffer
				h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(1e9, 0), Uname: "u", Format: format}
				must.Do(t, tar.NewWriter(&buf).WriteHeader(&h))
				out = append(out, buf.Bytes()[buf.Len()-blockSize:])
			}
		}
	}
	return out
}

// repaired returns a copy with the right checksum.
func repaired(block []byte) []byte {
	out := bytes.Clone(block)
	copy(out[148:156], "        ")
	sum := 0
	for _, b := range out {
		sum += int(b)
	}
	copy(out[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return out
}

// Where plainFile reads a header, it finds what archive/tar finds. It reads most headers that are sound.
func TestPlainFilesAreThoseOfArchiveTar(t *testing.T) {
	r := rng.New(1, "headers")
	read := 0
	check := func(block []byte) {
		reader := newTarReader(bytes.NewReader(block), int64(len(block)))
		got, ok := reader.plainFile()
		if !ok {
			if reader.cur.at != 0 {
				t.Fatalf("it went on to %d without an entry", reader.cur.at)
			}
			return
		}
		read++
		if want, sound := judged(block); !sound || got != want {
			t.Fatalf("%q\nread %+v, archive/tar %+v, %t", block, got, want, sound)
		}
	}
	blocks := headers(t)
	for _, block := range blocks {
		check(block)
	}
	if read < len(blocks)/2 {
		t.Errorf("%d of %d headers were read", read, len(blocks))
	}
	for range 200_000 {
		block := bytes.Clone(blocks[r.IntN(len(blocks))])
		for range 1 + r.IntN(3) {
			at := r.IntN(blockSize)
			if r.IntN(2) == 0 {
				at = 100 + r.IntN(57) // numbers
			}
			block[at] = "\x00 07189/ax\xff-"[r.IntN(12)]
		}
		if r.IntN(4) > 0 {
			block = repaired(block)
		}
		check(block)
	}
}
