package grouper

import (
	"context"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// random is the strategy of [Random].
type random struct{}

func (random) validate(Options, *invalid.List) {}

func (random) reads(Options, int) reads { return readsNothing }

func (random) plan(_ context.Context, in planInput) (Plan, error) {
	return Random(in.image, in.options.BatchSize, in.key), nil
}

// Random plans an epoch in random order. image[p] numbers the image of pair p, from 0.
//
// No mini-batch has two pairs of one image if that can be avoided. Of two such pairs the later one moves. It goes to
// the next mini-batch without a pair of its image; after the last mini-batch comes the first. From there it sends back
// the first pair whose image is not in the mini-batch that it left. If no mini-batch takes it, it stays.
func Random(image []int32, batchSize int, key Key) Plan {
	order := permutation(len(image), key.generator("random order"))
	separate(order, image, batchSize, func(int) bool { return true })
	return Plan{order, batchSize}
}
