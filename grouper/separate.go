package grouper

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
