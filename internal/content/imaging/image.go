package imaging

// Image is a picture of 8-bit RGB pixels.
type Image struct {
	W, H int
	Pix  []byte // 3 bytes a pixel: R, G, B; row after row without padding
}

// New returns a black image.
func New(w, h int) *Image { return &Image{W: w, H: h, Pix: make([]byte, 3*w*h)} }

// Bytes returns the memory that the pixels take.
func (im *Image) Bytes() int64 { return int64(len(im.Pix)) }

// At returns the colour of one pixel.
func (im *Image) At(x, y int) (r, g, b byte) {
	i := 3 * (y*im.W + x)
	return im.Pix[i], im.Pix[i+1], im.Pix[i+2]
}

// mirror flips the image left to right, in place.
func (im *Image) mirror() {
	for y := range im.H {
		row := im.Pix[3*y*im.W : 3*(y+1)*im.W]
		for a, b := 0, len(row)-3; a < b; a, b = a+3, b-3 {
			row[a], row[b] = row[b], row[a]
			row[a+1], row[b+1] = row[b+1], row[a+1]
			row[a+2], row[b+2] = row[b+2], row[a+2]
		}
	}
}
