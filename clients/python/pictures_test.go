package python

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/oddpictures"
)

// decodePictures writes the pixels of every picture of a folder beside it.
const decodePictures = `
import sys, warnings
from pathlib import Path
from pairstream.picture import decode
warnings.simplefilter("error")
for path in sorted(Path(sys.argv[1]).glob("*.picture")):
    image = decode(path.read_bytes())
    assert image.mode == "RGB", path
    path.with_suffix(".%dx%d" % image.size).write_bytes(image.tobytes())
`

// TestOddPictures decodes one set of odd pictures in Go and in Python. PNG and lossless WebP have the same pixels.
func TestOddPictures(t *testing.T) {
	run := python(t, "numpy", "PIL")
	dir := t.TempDir()
	pictures := oddpictures.All(t, "../../internal/content/imaging/testdata")
	for i, p := range pictures {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.picture", i)), p.Encoded, 0o600))
	}
	mustRun(t, run, "-c", decodePictures, dir)
	for i, p := range pictures {
		t.Run(p.Name, func(t *testing.T) {
			im := must.Get(imaging.Decode(p.Encoded))(t)
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.%dx%d", i, im.W, im.H)))
			if err != nil {
				t.Fatalf("Python has no picture of %d x %d pixels", im.W, im.H)
			}
			if p.Within == 0 && !bytes.Equal(got, im.Pix) {
				t.Error("the pixels are not the same")
			}
			python := imaging.Image{W: im.W, H: im.H, Pix: got}
			for s := range p.Want {
				x, y := oddpictures.Side*(s%3)+oddpictures.Side/2, oddpictures.Side*(s/3)+oddpictures.Side/2
				for _, side := range []*imaging.Image{im, &python} {
					r, g, b := side.At(x, y)
					for c, v := range [3]byte{r, g, b} {
						if d := int(v) - int(p.Want[s][c]); d > p.Within || -d > p.Within {
							t.Errorf("square %d is %v in Go and in Python %v, want %v", s, at(im, x, y), at(&python, x, y), p.Want[s])
						}
					}
				}
			}
		})
	}
}

func at(im *imaging.Image, x, y int) [3]byte {
	r, g, b := im.At(x, y)
	return [3]byte{r, g, b}
}
