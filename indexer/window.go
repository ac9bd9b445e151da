package indexer

import "github.com/pairstream/pairstream/schemas"

// window remembers the pairs of a lane's latest embeddings, across groups. It is a function of their seqs: those are
// cut into blocks of half its size, and it holds the newest block and the two before it. So it reaches back at least
// its size, and half as much again at most.
type window struct {
	block  int64 // seqs of a block; 0: nothing is remembered
	newest int64 // number of the newest block
	blocks [windowBlocks]idTable[schemas.PairID]
	images *[windowBlocks]idTable[schemas.ImageID] // nil: images are not looked at

	last     int64 // seq that was seen last, so that it may be seen again when a group was closed before it
	repeated seen
}

// seen says what of an embedding came before it in the window.
type seen struct{ pair, image bool }

const windowBlocks = 3

func newWindow(size int) window { return window{block: blockOf(size), last: -1} }

// blockOf returns the number of seqs of a block, for a window of at least size embeddings.
func blockOf(size int) int64 { return int64(size+1) / 2 }

// WindowBlocks returns the number of a seq's block, and that of the first block that an owner must read to resume
// there. Without a window every seq is its own block.
func (o Options) WindowBlocks(seq int64) (first, own int64) {
	block := blockOf(o.Window)
	if block == 0 {
		return seq, seq
	}
	own = seq / block
	return max(0, own-windowBlocks+1), own
}

// lookAtImages remembers images as well from now on.
func (w *window) lookAtImages() {
	if w.images == nil && w.block > 0 {
		w.images = new([windowBlocks]idTable[schemas.ImageID])
	}
}

// see takes the pair and the image of the embedding with this seq, and says whether an embedding before it had the
// same.
func (w *window) see(pair schemas.PairID, image schemas.ImageID, seq int64) seen {
	if w.block == 0 {
		return seen{}
	}
	if seq == w.last {
		return w.repeated
	}
	for number := seq / w.block; w.newest < number; {
		w.newest = max(w.newest+1, number-windowBlocks)
		copy(w.blocks[1:], w.blocks[:])
		w.blocks[0] = idTable[schemas.PairID]{}
		if w.images != nil {
			copy(w.images[1:], w.images[:])
			w.images[0] = idTable[schemas.ImageID]{}
		}
	}
	w.last, w.repeated = seq, seen{}
	for i := range w.blocks {
		w.repeated.pair = w.repeated.pair || w.blocks[i].find(pair) >= 0
	}
	w.blocks[0].add(pair)
	if w.images != nil {
		for i := range w.images {
			w.repeated.image = w.repeated.image || w.images[i].find(image) >= 0
		}
		w.images[0].add(image)
	}
	return w.repeated
}
