package imaging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// changeNames has the names of the reference vectors, in the order of the constants.
var changeNames = []string{"brightness", "contrast", "saturation", "hue", "grey", "blur"}

// drawnStep is a step as the reference vectors write it: name and value.
type drawnStep [2]any

func (d drawnStep) step() step {
	return step{change(slices.Index(changeNames, d[0].(string))), d[1].(float64)}
}

// distortions are what Pillow makes of pictures.
type distortions struct {
	*safetensors.File
	config struct {
		Operations []drawnStep `json:"operations"`
		Calls      []struct {
			Image int         `json:"image"`
			Steps []drawnStep `json:"steps"`
		} `json:"calls"`
	}
}

func openDistortions(t *testing.T) *distortions {
	t.Helper()
	f := must.Get(safetensors.Open(golden.Testdata(t, "tcl_augment.safetensors")))(t)
	d := &distortions{File: f}
	must.Do(t, json.Unmarshal([]byte(f.Metadata["config"]), &d.config))
	return d
}

func (d *distortions) image(t *testing.T, name string) *Image {
	t.Helper()
	x, ok := d.Tensor(name)
	if !ok {
		t.Fatalf("no picture %s", name)
	}
	return &Image{H: int(x.Shape[0]), W: int(x.Shape[1]), Pix: slices.Clone(x.Data)}
}

// Every operation is Pillow's, to the byte.
func TestDistortionsArePillows(t *testing.T) {
	d := openDistortions(t)
	seen := map[change]bool{}
	for i := range 4 {
		for o, drawn := range d.config.Operations {
			s := drawn.step()
			got := d.image(t, fmt.Sprintf("in.image.%d", i))
			got.distort([]step{s})
			compare(t, fmt.Sprintf("%v of picture %d", drawn, i), got, d.image(t, fmt.Sprintf("out.%d.%d", o, i)), 0, 1)
			seen[s.change] = true
		}
	}
	if len(seen) != len(changeNames) {
		t.Errorf("%d operations were compared, want %d", len(seen), len(changeNames))
	}
}

func TestDistortionsInARow(t *testing.T) {
	d := openDistortions(t)
	for c, call := range d.config.Calls {
		var steps []step
		for _, s := range call.Steps {
			steps = append(steps, s.step())
		}
		got := d.image(t, fmt.Sprintf("in.image.%d", call.Image))
		got.distort(steps)
		compare(t, fmt.Sprintf("call %d", c), got, d.image(t, fmt.Sprintf("out.call.%d", c)), 0, 1)
	}
	if len(d.config.Calls) == 0 {
		t.Error("no calls")
	}
}

// The probabilities and ranges are those of TCL's create_dataset, and every order of the jitter comes up.
func TestDistortionsAreDrawnAsInTCL(t *testing.T) {
	const draws = 20000
	count, orders := map[change]int{}, map[string]int{}
	least, most := map[change]float64{}, map[change]float64{}
	for key := range int64(draws) {
		var order strings.Builder
		steps := drawDistortion(rng.New(1, "distortions", key))
		for i, s := range steps {
			if i > 0 && s.change > changeHue && s.change <= steps[i-1].change {
				t.Fatalf("%v: grey and blur follow the jitter, in this order", steps)
			}
			if count[s.change] == 0 {
				least[s.change], most[s.change] = s.value, s.value
			}
			count[s.change]++
			least[s.change], most[s.change] = min(least[s.change], s.value), max(most[s.change], s.value)
			if s.change <= changeHue {
				fmt.Fprint(&order, s.change)
			}
		}
		if order.Len() > 0 {
			orders[order.String()]++
		}
	}
	if len(orders) != 24 {
		t.Errorf("%d orders of four operations, want 24", len(orders))
	}
	for c, want := range map[change]struct{ chance, low, high, slack float64 }{
		changeBrightness: {0.8, 0.6, 1.4, 0.01}, changeContrast: {0.8, 0.6, 1.4, 0.01}, changeSaturation: {0.8, 0.6, 1.4, 0.01},
		changeHue: {0.8, -0.1, 0.1, 0.002}, changeGrey: {0.2, 0, 0, 0}, changeBlur: {0.5, 0.1, 2, 0.02},
	} {
		if share := float64(count[c]) / draws; share < want.chance-0.015 || share > want.chance+0.015 {
			t.Errorf("%s is done in %.3f of the pictures, want %g", changeNames[c], share, want.chance)
		}
		if least[c] < want.low || least[c] > want.low+want.slack || most[c] > want.high || most[c] < want.high-want.slack {
			t.Errorf("%s varies from %g to %g, want %g to %g", changeNames[c], least[c], most[c], want.low, want.high)
		}
	}
}

// Without Distort the draws, and so the pixels, are what they were before it existed.
func TestDistortIsAFunctionOfItsGenerator(t *testing.T) {
	im := openDistortions(t).image(t, "in.image.0")
	before := bytes.Clone(im.Pix)
	o := AugmentOptions{Size: 16, MinScale: 0.2, Distort: true, Flip: 0.5, Ops: 2, Level: 7}
	distinct := map[string]bool{}
	for key := range int64(20) {
		a, b := Augment(im, o, rng.New(3, "image", key)), Augment(im, o, rng.New(3, "image", key))
		if !bytes.Equal(a.Pix, b.Pix) {
			t.Errorf("generator %d gives two pictures", key)
		}
		distinct[string(a.Pix)] = true
	}
	if len(distinct) != 20 || !bytes.Equal(im.Pix, before) {
		t.Errorf("20 generators gave %d pictures; the original is as it was: %t", len(distinct), bytes.Equal(im.Pix, before))
	}
	// After the crop, and before mirroring: a picture that is mirrored for certain is the mirrored one.
	plain, mirrored := Augment(im, AugmentOptions{Distort: true}, rng.New(3, "order")), Augment(im, AugmentOptions{Distort: true, Flip: 1}, rng.New(3, "order"))
	plain.mirror()
	if !bytes.Equal(plain.Pix, mirrored.Pix) {
		t.Error("mirroring comes before the distortion")
	}
}
