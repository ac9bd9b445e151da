package imaging

import (
	"bytes"
	"encoding/binary"
)

// JPEG markers.
const (
	markerTEM  = 0x01
	markerSOF0 = 0xc0
	markerSOF2 = 0xc2
	markerRST0 = 0xd0
	markerRST7 = 0xd7
	markerSOI  = 0xd8
	markerEOI  = 0xd9
	markerSOS  = 0xda
	markerAPP1 = 0xe1
)

// jpegFacts holds the facts in a JPEG's segments besides its size.
type jpegFacts struct {
	orientation  int
	progressive  bool
	components   int
	coefficients int64 // of all components
	scans        int
	visits       int64 // of coefficients, in all scans

	planes map[byte]int64 // coefficients of each component
}

// inspectJPEG walks the segments of a JPEG as its decoders do. For a broken file it returns the facts before the break:
// the decoder will complain.
func inspectJPEG(b []byte) jpegFacts {
	facts := jpegFacts{orientation: 1}
	for {
		at := bytes.IndexByte(b, 0xff)
		if at < 0 || at+1 >= len(b) {
			return facts
		}
		marker := b[at+1]
		if marker == 0xff { // a fill byte before a marker
			b = b[at+1:]
			continue
		}
		b = b[at+2:]
		if marker == markerEOI {
			return facts
		}
		if !hasLength(marker) {
			continue
		}
		if len(b) < 2 {
			return facts
		}
		n := int(binary.BigEndian.Uint16(b))
		if n < 2 || n > len(b) {
			return facts
		}
		facts.segment(marker, b[2:n])
		b = b[n:]
	}
}

// hasLength reports whether a segment follows a marker. Nothing follows SOI, TEM and the restart markers, and a zero is
// no marker but a byte of the pixels.
func hasLength(marker byte) bool {
	return marker != 0 && marker != markerTEM && marker != markerSOI && (marker < markerRST0 || marker > markerRST7)
}

func (f *jpegFacts) segment(marker byte, body []byte) {
	switch {
	case marker >= markerSOF0 && marker <= markerSOF2:
		f.progressive = marker == markerSOF2
		f.frame(body)
	case marker == markerSOS:
		f.scans++
		f.visits += f.visited(body)
	case marker == markerAPP1:
		if o := exifOrientation(body); o != 0 {
			f.orientation = o
		}
	}
}

// frame reads the components.
//
//	precision | 2 height | 2 width | components | components x (id, sampling across and down, table)
func (f *jpegFacts) frame(body []byte) {
	if len(body) < 6 || len(body) < 6+3*int(body[5]) || f.planes != nil {
		return
	}
	height, width := int64(binary.BigEndian.Uint16(body[1:])), int64(binary.BigEndian.Uint16(body[3:]))
	components := body[6 : 6+3*int(body[5])]
	across, down := int64(1), int64(1)
	for c := 0; c < len(components); c += 3 {
		across, down = max(across, int64(components[c+1]>>4)), max(down, int64(components[c+1]&15))
	}
	units := ((width + 8*across - 1) / (8 * across)) * ((height + 8*down - 1) / (8 * down))
	f.components, f.planes = int(body[5]), map[byte]int64{}
	for c := 0; c < len(components); c += 3 {
		plane := 64 * units * int64(components[c+1]>>4) * int64(components[c+1]&15)
		f.planes[components[c]] = plane
		f.coefficients += plane
	}
}

// leastBand is the cost of skipping a block, in coefficients.
const leastBand = 8

// visited counts the coefficients that a scan touches.
//
//	components | components x (id, tables) | first and last coefficient | bits
func (f *jpegFacts) visited(body []byte) int64 {
	if len(body) < 1 || len(body) < 3+2*int(body[0]) {
		return 0
	}
	var planes int64
	for c := range int(body[0]) {
		planes += f.planes[body[1+2*c]]
	}
	band := int64(64)
	if f.progressive {
		first, last := int64(body[1+2*int(body[0])]), int64(body[2+2*int(body[0])])
		band = min(64, max(leastBand, last-first+1))
	}
	return planes / 64 * band
}

// exifOrientation finds tag 0x0112 in the first directory of an Exif segment; 0: there is no valid one.
//
//	"Exif\0\0" | "II" or "MM" | 42 | offset of the directory | ... | count | count x (tag, type, count, value)
func exifOrientation(segment []byte) int {
	tiff, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00"))
	if !ok || len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 0
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 0
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return 0
		}
		const typeShort = 3
		if order.Uint16(entries) == 0x0112 && order.Uint16(entries[2:]) == typeShort {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 0
		}
		entries = entries[12:]
	}
	return 0
}

// orient turns the stored pixels upright; EXIF numbers the eight symmetries of a rectangle from 1 (upright) to 8.
func (im *Image) orient(orientation int) *Image {
	if orientation < 2 || orientation > 8 {
		return im
	}
	out := New(im.W, im.H)
	if orientation >= 5 { // 5..8 swap rows and columns
		out.W, out.H = im.H, im.W
	}
	for y := range out.H {
		for x := range out.W {
			sx, sy := uprightSource(orientation, x, y, im.W, im.H)
			copy(out.Pix[3*(y*out.W+x):], im.Pix[3*(sy*im.W+sx):3*(sy*im.W+sx)+3])
		}
	}
	return out
}

// uprightSource returns the stored pixel, of w x h, that belongs at (x, y) of the upright picture.
func uprightSource(orientation, x, y, w, h int) (int, int) {
	switch orientation {
	case 2: // mirrored
		return w - 1 - x, y
	case 3: // upside down
		return w - 1 - x, h - 1 - y
	case 4: // upside down, mirrored
		return x, h - 1 - y
	case 5: // transposed
		return y, x
	case 6: // to be turned clockwise
		return y, h - 1 - x
	case 7: // transposed over the other diagonal
		return w - 1 - y, h - 1 - x
	default: // 8: to be turned counter-clockwise
		return w - 1 - y, x
	}
}
