//go:build cgo

package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"testing"

	"github.com/pairstream/pairstream/internal/rng"
)

// decodeRegularly returns the pixels of a regular file, or nil, and those of any file, or nil.
func decodeRegularly(encoded []byte, shrink int) (regular, others []byte) {
	size := sizeOf(encoded)
	if size.X*size.Y == 0 {
		return nil, nil
	}
	regular, m := blank(size, shrink).Pix, blank(size, shrink)
	if !decodeRegular(regular, encoded, size, shrink) {
		regular = nil
	}
	if err := decodeAny(m, encoded, size); err != nil {
		m.Pix = nil
	}
	return regular, m.Pix
}

func TestRegularFilesHaveTheSamePixels(t *testing.T) {
	sources := files(t)
	delete(sources, "blocks_cmyk.jpg")
	delete(sources, "blocks_progressive.jpg")
	for _, size := range []image.Point{{1, 1}, {8, 8}, {17, 9}, {63, 5}, {64, 20}, {65, 33}, {107, 3}, {200, 150}} {
		for _, strength := range []int{0, 20, 255} {
			for _, quality := range []int{1, 50, 90, 100} {
				for _, grey := range []bool{false, true} {
					name := fmt.Sprintf("%v, noise %d, quality %d, grey %v", size, strength, quality, grey)
					sources[name] = encode(t, drawing(size.X, size.Y, strength, grey), quality)
				}
			}
		}
	}
	for name, encoded := range sources {
		for _, shrink := range []int{1, 2, 4, MaxShrink} {
			got, want := decodeRegularly(encoded, shrink)
			if got == nil || !bytes.Equal(got, want) {
				t.Errorf("%s, by %d: is regular %v, %d bytes, want the same as %d", name, shrink, got != nil, len(got), len(want))
			}
		}
	}
}

func TestIrregularFilesAreLeft(t *testing.T) {
	encoded := encode(t, drawing(40, 30, 60, false), 80)
	scan, end := bytes.Index(encoded, []byte{0xff, 0xda}), len(encoded)-2
	if encoded[end] != 0xff || encoded[end+1] != 0xd9 {
		t.Fatal("the file does not end with the mark of the end")
	}
	insert := func(at int, b ...byte) []byte {
		return append(append(bytes.Clone(encoded[:at]), b...), encoded[at:]...)
	}
	set := func(at int, b byte) []byte {
		out := bytes.Clone(encoded)
		out[at] = b
		return out
	}
	components := bytes.Index(encoded, []byte{0xff, 0xc0}) + 10
	for name, file := range map[string][]byte{
		"progressive":             files(t)["blocks_progressive.jpg"],
		"CMYK":                    files(t)["blocks_cmyk.jpg"],
		"restarts":                insert(scan, 0xff, 0xdd, 0, 4, 0, 1),
		"bytes before the scan":   insert(scan, 0, 0),
		"bytes behind the scan":   insert(end, 0x55),
		"a mark within the scan":  set((scan+end)/2, 0xff),
		"cut within the scan":     append(bytes.Clone(encoded[:end-20]), 0xff, 0xd9),
		"no mark of the end":      encoded[:end],
		"no byte behind the last": encoded[:end+1],
		"a table that is not":     set(scan+6, 0x33),
		"chroma twice as high":    set(components+4, 0x12),
	} {
		if regular, _ := decodeRegularly(file, 1); regular != nil {
			t.Errorf("%s: taken for regular", name)
		}
	}
}

// Whatever passes for regular is a file that libjpeg-turbo decodes, to the same pixels.
func TestBrokenFilesPassForNothingElse(t *testing.T) {
	passed, left := 0, 0
	for _, quality := range []int{30, 80, 100} {
		encoded := encode(t, drawing(70, 50, 60, false), quality)
		r := rng.New(3, "broken", int64(quality))
		for i := range 3000 {
			broken := bytes.Clone(encoded)
			for range 1 + r.IntN(3) {
				broken[r.IntN(len(broken))] ^= byte(1 << r.IntN(8))
			}
			if size := sizeOf(broken); size.X*size.Y > 1<<20 {
				continue
			}
			got, want := decodeRegularly(broken, 1)
			if got == nil {
				left++
				continue
			}
			passed++
			if !bytes.Equal(got, want) {
				t.Errorf("quality %d, bits flipped, %d: other pixels, or refused (%v)", quality, i, want == nil)
			}
		}
	}
	if passed == 0 || left == 0 {
		t.Errorf("%d broken files passed, %d were left", passed, left)
	}
}

func FuzzRegular(f *testing.F) {
	for _, encoded := range files(f) {
		if len(encoded) < 4000 {
			f.Add(encoded)
		}
	}
	f.Add(encode(f, drawing(17, 9, 255, false), 100))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if size := sizeOf(encoded); len(encoded) == 0 || size.X*size.Y > 1<<20 {
			t.Skip("nothing, or too large")
		}
		for _, shrink := range []int{1, MaxShrink} {
			if got, want := decodeRegularly(encoded, shrink); got != nil && !bytes.Equal(got, want) {
				t.Fatalf("by %d: other pixels, or refused (%v)", shrink, want == nil)
			}
		}
	})
}
