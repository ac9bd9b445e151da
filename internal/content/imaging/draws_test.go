package imaging

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/augment_draws.safetensors anew")

// Pictures that this package varies are those of the vectors, which the Python package is held to.
func TestDrawsOfAugment(t *testing.T) {
	const seed, draws = 5, 12
	o := AugmentOptions{Size: 16, MinScale: 0.2, Distort: true, Flip: 0.5, Color: 0.1, Ops: 2, Level: 7}
	im := openDistortions(t).image(t, "in.image.0")
	path := golden.Testdata(t, "augment_draws.safetensors")
	var tensors []safetensors.NamedTensor
	for key := range int64(draws) {
		got := Augment(im, o, rng.New(seed, "image", key))
		tensors = append(tensors, safetensors.NamedTensor{
			Name:   fmt.Sprintf("out.%d", key),
			Tensor: safetensors.Tensor{DType: "U8", Shape: []int64{int64(got.H), int64(got.W), 3}, Data: got.Pix},
		})
	}
	if *rewrite {
		config := must.Get(json.Marshal(map[string]any{
			"seed": seed, "draws": draws, "size": o.Size, "min_scale": o.MinScale, "distort": o.Distort, "flip": o.Flip, "color": o.Color,
			"ops": o.Ops, "level": o.Level,
		}))(t)
		must.Do(t, safetensors.WriteFile(path, tensors, map[string]string{"config": string(config)}))
	}
	f := must.Get(safetensors.Open(path))(t)
	for _, x := range tensors {
		want, ok := f.Tensor(x.Name)
		if !ok || string(want.Data) != string(x.Data) {
			t.Errorf("%s is another picture than that of the vectors", x.Name)
		}
	}
}
