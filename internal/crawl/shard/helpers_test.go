package shard_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// member is one entry of a tar to be built.
type member struct {
	name string
	data string
	kind byte // 0: a regular file
}

// buildTar writes members as GNU tar would, end marker included.
func buildTar(t testing.TB, members ...member) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: 0o600, Size: int64(len(m.data)), ModTime: time.Unix(1, 0)}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag != tar.TypeReg {
			h.Size, h.Linkname = 0, "target"
		}
		must.Do(t, w.WriteHeader(h))
		if h.Size > 0 {
			must.Get(w.Write([]byte(m.data)))(t)
		}
	}
	must.Do(t, w.Close())
	return buf.Bytes()
}

// picture is a small PNG that differs with n.
func picture(t testing.TB, n int) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 8, 8))
	for i := range 64 {
		m.Set(i%8, i/8, color.RGBA{byte(n), byte(n >> 8), byte(4 * i), 255})
	}
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.String()
}

// hugePNG declares 60,000 x 60,000 pixels.
func hugePNG() string {
	ihdr := binary.BigEndian.AppendUint32([]byte("IHDR"), 60_000)
	ihdr = append(binary.BigEndian.AppendUint32(ihdr, 60_000), 8, 2, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), ihdr...)
	return string(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(ihdr)))
}

// writeFile puts a file into a folder and returns its path without symbolic links.
func writeFile(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	real := must.Get(filepath.EvalSymlinks(dir))(t)
	path := filepath.Join(real, name)
	must.Do(t, os.WriteFile(path, data, 0o600))
	return path
}

// problemCount is the number of problems of all reasons.
func problemCount(t shard.Totals) int {
	n := 0
	for _, c := range t.Problems {
		n += c
	}
	return n
}

// found is what a scan gave.
type found struct {
	examples []shard.Example
	problems []shard.Problem
	totals   shard.Totals
}

// scan scans one tar, written to a file, and checks what must hold of every scan.
func scan(t testing.TB, raw []byte) found {
	t.Helper()
	return scanFile(t, writeFile(t, t.TempDir(), "00000.tar", raw))
}

func scanFile(t testing.TB, path string) found {
	t.Helper()
	path = must.Get(filepath.Abs(path))(t)
	raw := must.Get(os.ReadFile(path))(t)
	var f found
	f.totals = must.Get(shard.Scan(context.Background(), []string{path}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if got := raw[ex.Image.Offset : ex.Image.Offset+ex.Image.Size]; !bytes.Equal(got, ex.Encoded) {
				t.Errorf("key %q: the reference does not point at the image", ex.Key)
			}
			if ex.ImageID != schemas.NewImageID(ex.Encoded) {
				t.Errorf("key %q: wrong image id", ex.Key)
			}
			for _, p := range shard.Pairs(ex) {
				if _, err := schemas.Marshal(p); err != nil {
					t.Errorf("key %q: %v", ex.Key, err)
				}
			}
			ex.Encoded = bytes.Clone(ex.Encoded)
			f.examples = append(f.examples, ex)
			return nil
		},
		Problem: func(p shard.Problem) error {
			if p.URI != shard.FileURI(path) || p.Offset < 0 || p.Offset > int64(len(raw)) || p.Detail == "" {
				t.Errorf("problem %+v", p)
			}
			f.problems = append(f.problems, p)
			return nil
		},
	}))(t)
	pairs := 0
	for _, ex := range f.examples {
		pairs += len(ex.Captions)
	}
	if f.totals.Examples != len(f.examples) || f.totals.Pairs != pairs || problemCount(f.totals) != len(f.problems) {
		t.Errorf("totals %+v for %d examples, %d pairs, %d problems", f.totals, len(f.examples), pairs, len(f.problems))
	}
	return f
}

// reasons lists the problems' reasons in order.
func (f found) reasons() string {
	var out []string
	for _, p := range f.problems {
		out = append(out, string(p.Reason))
	}
	return strings.Join(out, " ")
}

// captions lists "key: caption|caption" of the examples in order.
func (f found) captions() string {
	var out []string
	for _, ex := range f.examples {
		out = append(out, ex.Key+": "+strings.Join(ex.Captions, "|"))
	}
	return strings.Join(out, "; ")
}
