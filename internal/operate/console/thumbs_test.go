package console

import "testing"

// TestThumbnailsAreBounded keeps more than may be kept. The latest ones stay.
func TestThumbnailsAreBounded(t *testing.T) {
	kept := newThumbs(nil, nil)
	const size = 1 << 20
	for i := range 2 * thumbBytes / size {
		kept.keep(thumbKey{side: i}, make([]byte, size))
		kept.keep(thumbKey{side: i}, make([]byte, size)) // which another request has made as well
	}
	if kept.size != thumbBytes || kept.kept.Len() != thumbBytes/size || !kept.kept.Contains(thumbKey{side: 2*thumbBytes/size - 1}) {
		t.Errorf("%d thumbnails of %d bytes are kept, want %d bytes of the latest", kept.kept.Len(), kept.size, thumbBytes)
	}
}
