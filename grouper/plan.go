package grouper

import (
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Plan is the order in which the pairs of a group are trained on in one epoch.
type Plan struct {
	Order     []int32 // positions in the group, each once
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

// separate exchanges pairs between mini-batches, as [Random] says, until no two pairs of a mini-batch show the same
// image or nothing more can be done. Only pairs at free places move.
func separate(order, image []int32, batchSize int, free func(place int) bool) {
	s := separator{Plan{order, batchSize}, image, free, make(map[int32]int)}
	inBatch := make([]int32, numbersIn(image)) // of each image: 1 + the last mini-batch in which it was seen
	for b := range s.Batches() {
		for i := range s.Batch(b) {
			place := b*batchSize + i
			if inBatch[image[order[place]]] == int32(b+1) && free(place) {
				s.move(b, place)
			}
			inBatch[image[order[place]]] = int32(b + 1)
		}
	}
}

type separator struct {
	Plan
	image []int32
	free  func(place int) bool
	// next is, for each image that was moved, the mini-batch where to go on looking; -1: it is in all that can take it.
	// Looking on instead of looking anew keeps the work for an image near one round of the mini-batches.
	next map[int32]int
}

// move finds another mini-batch for the pair at a place of mini-batch b.
func (s *separator) move(b, place int) {
	image := s.image[s.Order[place]]
	from, known := s.next[image]
	if from < 0 {
		return
	}
	if !known {
		from = b + 1
	}
	for k := range s.Batches() {
		to := (from + k) % s.Batches()
		if to == b || s.shows(to, image) {
			continue
		}
		for i, other := range s.Batch(to) {
			if s.free(to*s.BatchSize+i) && !s.shows(b, s.image[other]) {
				s.Order[place], s.Order[to*s.BatchSize+i] = other, s.Order[place]
				s.next[image] = to + 1
				return
			}
		}
	}
	s.next[image] = -1
}

// shows says whether a pair of mini-batch b has the image.
func (s *separator) shows(b int, image int32) bool {
	for _, p := range s.Batch(b) {
		if s.image[p] == image {
			return true
		}
	}
	return false
}
