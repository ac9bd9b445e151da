package towers

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// The shape of what the archive says of an image, and of the picture that holds it.
const (
	input    = 224 // pixels on a side of the image tower's input
	grid     = 4   // places on a side of an image
	patch    = 8   // pixels on a side of a place's square
	channels = 3 * patch * patch
	values   = channels * grid * grid
	at       = 8 // images at a time

	// Side is the number of pixels on a side of a picture.
	Side = grid * patch
)

// Pictures returns a picture, as PNG, of each of n photographs. Every channel has mean 128 and deviation 32 over all of
// them.
func (t *Towers) Pictures(ctx context.Context, w *torch.Worker, n int, photo func(i int) ([]byte, error)) ([][]byte, error) {
	maps, err := t.look(ctx, w, n, photo)
	if err != nil {
		return nil, err
	}
	scales := scalesOf(maps)
	out := make([][]byte, n)
	for i := range out {
		if out[i], err = draw(maps[i*values:(i+1)*values], scales); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// look runs photographs through the image tower: [n, channels, grid, grid].
func (t *Towers) look(ctx context.Context, w *torch.Worker, n int, photo func(i int) ([]byte, error)) ([]float32, error) {
	var script *torch.Script
	if err := w.Do(ctx, func(s *torch.Scope) (err error) { script, err = s.LoadScript(t.Archive()); return err }); err != nil {
		return nil, err
	}
	defer script.Free()
	pre := imaging.Preprocess{Size: input, Mode: imaging.CenterCrop}
	maps := make([]float32, 0, n*values)
	for from := 0; from < n; from += at {
		count := min(at, n-from)
		pixels := make([]float32, count*pre.Values())
		for i := range count {
			encoded, err := photo(from + i)
			if err != nil {
				return nil, err
			}
			im, err := imaging.DecodeShrunk(encoded, 2*input)
			if err != nil {
				return nil, fmt.Errorf("decoding photograph %d: %w", from+i, err)
			}
			pre.Into(pixels[i*pre.Values():(i+1)*pre.Values()], im)
		}
		err := w.Do(ctx, func(s *torch.Scope) error {
			s.NoGrad(func() {
				x := s.Call(script, "features", s.Float32s(pixels, int64(count), 3, input, input))
				maps = append(maps, x.Float32s()...)
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(maps) != n*values {
		return nil, fmt.Errorf("%s says %d values of %d photographs, want %d each", t.Archive(), len(maps), n, values)
	}
	return maps, nil
}

// scale is the mean and the deviation of a channel.
type scale struct{ mean, deviation float64 }

// scalesOf returns the scales of the channels.
func scalesOf(maps []float32) (scales [channels]scale) {
	const places = grid * grid
	n := float64(len(maps) / channels)
	for c := range scales {
		var sum, squares float64
		for from := c * places; from < len(maps); from += values {
			for _, v := range maps[from : from+places] {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
		}
		mean := sum / n
		scales[c] = scale{mean, math.Sqrt(max(squares/n-mean*mean, 1e-12))}
	}
	return scales
}

// draw encodes what is known of an image. Channels c, c+1 and c+2 of a place are the colours of a pixel.
func draw(maps []float32, scales [channels]scale) ([]byte, error) {
	im := image.NewNRGBA(image.Rect(0, 0, Side, Side))
	value := func(c, place int) byte {
		z := (float64(maps[c*grid*grid+place]) - scales[c].mean) / scales[c].deviation
		return byte(math.Round(min(max(128+32*z, 0), 255)))
	}
	for place := range grid * grid {
		x, y := place%grid*patch, place/grid*patch
		for p := range patch * patch {
			im.SetNRGBA(x+p%patch, y+p/patch, color.NRGBA{value(3*p, place), value(3*p+1, place), value(3*p+2, place), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		return nil, fmt.Errorf("encoding a picture: %w", err)
	}
	return b.Bytes(), nil
}
