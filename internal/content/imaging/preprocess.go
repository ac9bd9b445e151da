package imaging

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Mode is the way to make a picture of any shape square.
type Mode int

const (
	// Squash scales both sides to the size, as ALBEF does, and cuts nothing off.
	Squash Mode = iota
	// CenterCrop scales the shorter side to the size and cuts out the middle, as CLIP does.
	CenterCrop
)

// CLIP's statistics of its training pixels; ALBEF uses the same.
var (
	CLIPMean = [3]float32{0.48145466, 0.4578275, 0.40821073}
	CLIPStd  = [3]float32{0.26862954, 0.26130258, 0.27577711}
)

// Preprocess makes a model's input from a picture.
type Preprocess struct {
	Size      int // pixels a side
	Mode      Mode
	Mean, Std [3]float32 // of the channels, with values in 0..1; both zero: CLIP's
}

// Values returns the length of one picture's input.
func (p Preprocess) Values() int { return 3 * p.Size * p.Size }

// Into writes the normalised picture into dst, channel by channel (CHW), row by row. It panics when dst does not hold
// [Preprocess.Values] values.
func (p Preprocess) Into(dst []float32, im *Image) {
	if len(dst) != p.Values() {
		panic(fmt.Sprintf("imaging: %d values for a picture of %d", len(dst), p.Values()))
	}
	room := rooms.take(p.Values())
	defer rooms.Put(room)
	pix := p.square(*room, im)
	tables := p.tables()
	plane := p.Size * p.Size
	red, green, blue := dst[:plane], dst[plane:2*plane], dst[2*plane:]
	for i := tables.intoVector(dst, pix); i < plane; i++ {
		px := pix[3*i : 3*i+3 : 3*i+3]
		red[i] = tables.values[0][px[0]]
		green[i] = tables.values[1][px[1]]
		blue[i] = tables.values[2][px[2]]
	}
}

// Bytes writes what [Preprocess.Into] normalises into dst, in the same order. It panics when dst does not hold
// [Preprocess.Values] bytes.
func (p Preprocess) Bytes(dst []byte, im *Image) {
	if len(dst) != p.Values() {
		panic(fmt.Sprintf("imaging: %d bytes for a picture of %d", len(dst), p.Values()))
	}
	plane := p.Size * p.Size
	red, green, blue := dst[:plane], dst[plane:2*plane], dst[2*plane:]
	room := rooms.take(p.Values())
	defer rooms.Put(room)
	pix := p.square(*room, im)
	for i := separateVector(dst, pix); i < plane; i++ {
		px := pix[3*i : 3*i+3 : 3*i+3]
		red[i], green[i], blue[i] = px[0], px[1], px[2]
	}
}

// Fit returns the picture as [Preprocess.Into] reads it: scaled and cropped to Size x Size, a byte for each value. Into
// takes the result and writes the same. A picture that fits already is returned as it is.
func (p Preprocess) Fit(im *Image) *Image {
	if p.fits(im) {
		return im
	}
	out := New(p.Size, p.Size)
	p.square(out.Pix, im)
	return out
}

func (p Preprocess) fits(im *Image) bool { return im.W == p.Size && im.H == p.Size }

// square scales and crops the picture to Size x Size pixels in room, and returns them. It leaves a picture that fits
// where it is.
func (p Preprocess) square(room []byte, im *Image) []byte {
	if p.fits(im) {
		return im.Pix
	}
	win := window{outW: p.Size, outH: p.Size, w: p.Size, h: p.Size}
	if p.Mode == CenterCrop {
		short := min(im.W, im.H)
		win.outW, win.outH = p.Size*im.W/short, p.Size*im.H/short
		win.x, win.y = centered(win.outW-p.Size), centered(win.outH-p.Size)
	}
	im.view(0, 0, im.W, im.H).resampleInto(&Image{W: p.Size, H: p.Size, Pix: room}, win)
	return room
}

// centered halves the part to cut off, rounding halves to even as CLIP's preprocessing does.
func centered(surplus int) int { return int(math.RoundToEven(float64(surplus) / 2)) }

// Statistics returns the mean and the standard deviation of the channels for normalisation.
func (p Preprocess) Statistics() (mean, std [3]float32) {
	if p.Std == [3]float32{} {
		return CLIPMean, CLIPStd
	}
	return p.Mean, p.Std
}

// Normalize sets other statistics than CLIP's. CLIP's are omitted, so that a Preprocess with them equals one without.
func (p *Preprocess) Normalize(mean, std [3]float32) error {
	for c := range std {
		if !(std[c] > 0) || math.IsInf(float64(std[c]), 0) || math.IsNaN(float64(mean[c])) || math.IsInf(float64(mean[c]), 0) {
			return fmt.Errorf("mean is %v and std %v, want finite numbers and std above 0", mean, std)
		}
	}
	p.Mean, p.Std = mean, std
	if mean == CLIPMean && std == CLIPStd {
		p.Mean, p.Std = [3]float32{}, [3]float32{}
	}
	return nil
}

// tables holds the normalised value of every byte of every channel.
type tables struct {
	mean, std [3]float32
	values    [3][256]float32
	bytes     [3][4][256]byte // of the values, the lowest first
}

// lastTables are the tables used last: a process seldom needs more than one kind.
var lastTables atomic.Pointer[tables]

// tables returns the tables for the statistics of p.
func (p Preprocess) tables() *tables {
	mean, std := p.Statistics()
	if t := lastTables.Load(); t != nil && t.mean == mean && t.std == std {
		return t
	}
	t := &tables{mean: mean, std: std}
	for c := range t.values {
		for v := range t.values[c] {
			t.values[c][v] = (float32(v)/255 - mean[c]) / std[c]
			bits := math.Float32bits(t.values[c][v])
			for n := range t.bytes[c] {
				t.bytes[c][n][v] = byte(bits >> (8 * n))
			}
		}
	}
	lastTables.Store(t)
	return t
}
