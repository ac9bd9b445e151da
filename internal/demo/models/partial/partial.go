// Package partial holds the weights with which the demo begins: a first model, and a connection discriminator (Con-D)
// that was trained for longer. Both are of experiment X14, and have learned from scenes of [Scenes] with seeds of their
// own. `make first-models` makes them; README.md has their figures.
package partial

import (
	_ "embed" // for the weights

	"github.com/pairstream/pairstream/internal/demo/scenes"
)

// Preset is the size of both models.
const Preset = "micro"

// First is the first model: the encoder, and the trainer's start.
//
//go:embed first.safetensors
var First []byte

// ConD is the connection discriminator.
//
//go:embed con-d.safetensors
var ConD []byte

// Scenes returns the world in which both models have learned: three large objects of eight shapes and eight colours,
// and one caption that omits things. Whether it is true of another picture needs the picture.
func Scenes(seed uint64) scenes.Options {
	o := scenes.Defaults()
	o.Seed, o.Captions, o.Kinds = seed, 1, scenes.Kinds{Shapes: 8, Objects: 3, Large: true, Plain: true, Partial: true}
	return o
}
