package jpeg

import (
	"image"
	"image/color"
)

// RGB is an image of three bytes a pixel, row after row without padding.
type RGB struct {
	Pix  []byte
	Size image.Point
}

var _ image.Image = (*RGB)(nil)

// ColorModel implements [image.Image].
func (m *RGB) ColorModel() color.Model { return color.RGBAModel }

// Bounds implements [image.Image].
func (m *RGB) Bounds() image.Rectangle { return image.Rectangle{Max: m.Size} }

// At implements [image.Image].
func (m *RGB) At(x, y int) color.Color {
	if !image.Pt(x, y).In(m.Bounds()) {
		return color.RGBA{}
	}
	p := m.Pix[3*(y*m.Size.X+x):]
	return color.RGBA{p[0], p[1], p[2], 255}
}
