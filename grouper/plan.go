package grouper

import (
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Plan is the order in which the pairs of a group are trained on in one epoch.
type Plan struct {
	Order     []int32 // positions in the group, each once
	BatchSize int
}

// Batches is the number of mini-batches; the last may be short.
func (p Plan) Batches() int { return (len(p.Order) + p.BatchSize - 1) / p.BatchSize }

// Batch is mini-batch i.
func (p Plan) Batch(i int) []int32 {
	return p.Order[i*p.BatchSize : min((i+1)*p.BatchSize, len(p.Order))]
}

// Key says which epoch of which group a plan is for; each purpose has a generator of its own.
type Key struct {
	Seed  uint64
	Group schemas.GroupID
	Epoch int
}

func (k Key) generator(purpose string, numbers ...int64) *rand.Rand {
	return rng.New(k.Seed, "grouper "+purpose, append([]int64{int64(k.Group.Lane), k.Group.Seq, int64(k.Epoch)}, numbers...)...)
}

// Random plans an epoch in random order. image[p] numbers the image of pair p, from 0.
//
// Pairs that share a mini-batch with their image change places with others: of two such pairs the later one goes to the
// next mini-batch (after the last comes the first) that has no pair of its image, in exchange for that one's first pair
// whose image is not in the mini-batch it comes to. A pair for which there is none stays.
func Random(image []int32, batchSize int, key Key) Plan {
	order := permutation(len(image), key.generator("random order"))
	separate(order, image, batchSize, func(int) bool { return true })
	return Plan{order, batchSize}
}

func permutation(n int, r *rand.Rand) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	shuffle(order, r)
	return order
}

func shuffle(order []int32, r *rand.Rand) {
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// numbersIn is one more than the highest of numbers that begin at 0.
func numbersIn(numbers []int32) int {
	count := int32(0)
	for _, n := range numbers {
		count = max(count, n+1)
	}
	return int(count)
}
