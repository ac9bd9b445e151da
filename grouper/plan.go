package grouper

import (
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Plan is the order in which the pairs of a group are trained on in one epoch.
type Plan struct {
	Order     []int32 // positions in the group, each once at most
	BatchSize int
}

// Batches returns the number of mini-batches; the last may be short.
func (p Plan) Batches() int { return (len(p.Order) + p.BatchSize - 1) / p.BatchSize }

// Batch returns mini-batch i.
func (p Plan) Batch(i int) []int32 {
	return p.Order[i*p.BatchSize : min((i+1)*p.BatchSize, len(p.Order))]
}

// Key says which epoch of which group a plan is for. Every purpose has its own generator.
type Key struct {
	Seed  uint64
	Group schemas.GroupID
	Epoch int
}

func (k Key) generator(purpose string, numbers ...int64) *rand.Rand {
	return rng.New(k.Seed, "grouper "+purpose, append([]int64{int64(k.Group.Lane), k.Group.Seq, int64(k.Epoch)}, numbers...)...)
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

// numbersIn returns one more than the highest of numbers that begin at 0.
func numbersIn(numbers []int32) int {
	count := int32(0)
	for _, n := range numbers {
		count = max(count, n+1)
	}
	return int(count)
}
