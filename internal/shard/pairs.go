package shard

import (
	"container/heap"

	"github.com/pairstream/pairstream/schemas"
)

// Pairs returns a pair for every caption of an example, in the captions' order, ready to be published.
func Pairs(ex Example) []*schemas.Pair {
	meta := ex.described
	if meta == nil {
		meta = describe(ex.Meta)
	}
	source, columns := sourceOf(ex, meta), columnsOf(meta.members, ex.Row)
	out := make([]*schemas.Pair, 0, len(ex.Captions))
	for _, text := range ex.Captions {
		image := ex.Image
		out = append(out, &schemas.Pair{
			ID:      schemas.NewPairID(ex.ImageID, text),
			ImageID: ex.ImageID,
			Image:   &image,
			Caption: text,
			Source:  source,
			Meta:    columns,
		})
	}
	return out
}

// HeldOut collects the n smallest image ids of those that it is shown: ids are hashes, so these are a random sample
// that does not depend on the order, on the tars or on the lanes. It takes memory for n ids.
type HeldOut struct {
	n    int
	heap idHeap // the largest on top
	set  map[schemas.ImageID]bool
}

// NewHeldOut collects n ids.
func NewHeldOut(n int) *HeldOut { return &HeldOut{n: n, set: map[schemas.ImageID]bool{}} }

// Wants reports whether adding the id would change anything.
func (h *HeldOut) Wants(id schemas.ImageID) bool {
	switch {
	case h.n <= 0 || h.set[id]:
		return false
	case len(h.heap) < h.n:
		return true
	}
	return less(id, h.heap[0])
}

// Add shows one id, which may have been seen before.
func (h *HeldOut) Add(id schemas.ImageID) {
	if !h.Wants(id) {
		return
	}
	heap.Push(&h.heap, id)
	h.set[id] = true
	if len(h.heap) > h.n {
		delete(h.set, heap.Pop(&h.heap).(schemas.ImageID))
	}
}

// Has reports whether the id is among the smallest so far.
func (h *HeldOut) Has(id schemas.ImageID) bool { return h.set[id] }

// Len returns the number of ids held out so far.
func (h *HeldOut) Len() int { return len(h.heap) }

// idHeap implements heap.Interface.
type idHeap []schemas.ImageID

func (h idHeap) Len() int           { return len(h) }
func (h idHeap) Less(i, j int) bool { return less(h[j], h[i]) }
func (h idHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *idHeap) Push(x any) { *h = append(*h, x.(schemas.ImageID)) }

// Pop implements heap.Interface.
func (h *idHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func less(a, b schemas.ImageID) bool { return string(a[:]) < string(b[:]) }
