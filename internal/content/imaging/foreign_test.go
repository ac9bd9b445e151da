package imaging_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
)

// TestForeignFormatsAreNamed says of images that are not read in which format they are.
func TestForeignFormatsAreNamed(t *testing.T) {
	for head, want := range map[string]string{
		"GIF87a": "GIF", "GIF89a": "GIF", "BM\x00\x00": "BMP", "II*\x00": "TIFF", "MM\x00*": "TIFF", "\xff\x0a": "JPEG XL", "\x00\x00\x00\x0cjP  ": "JPEG 2000",
		"\x00\x00\x00\x1cftypavif": "AVIF", "\x00\x00\x00\x1cftypheic": "HEIC", "\x00\x00\x00\x1cftypmif1": "HEIC", "\x00\x00\x00\x1cftypmp42": "", "<html>": "", "": "",
	} {
		_, err := imaging.Decode([]byte(head))
		if !errors.Is(err, imaging.ErrNotImage) || !strings.Contains(err.Error(), "neither JPEG, PNG nor WebP") || strings.Contains(err.Error(), "convert") != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want that it names %q", head, err, want)
		}
	}
}
