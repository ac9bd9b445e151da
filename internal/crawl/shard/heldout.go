package shard

import (
	"bytes"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// HeldOut collects the n smallest of the image ids that it is shown. Ids are hashes, so these are a random sample that
// does not depend on the order, on the tars or on the lanes. It holds n ids in memory.
type HeldOut struct {
	n   int
	ids []schemas.ImageID // ascending
}

// NewHeldOut collects n ids.
func NewHeldOut(n int) *HeldOut { return &HeldOut{n: n} }

func (h *HeldOut) find(id schemas.ImageID) (at int, found bool) {
	return slices.BinarySearchFunc(h.ids, id, func(a, b schemas.ImageID) int { return bytes.Compare(a[:], b[:]) })
}

// Wants reports whether adding the id would change anything.
func (h *HeldOut) Wants(id schemas.ImageID) bool {
	at, found := h.find(id)
	return !found && at < h.n
}

// Add shows one id, which may have been seen before.
func (h *HeldOut) Add(id schemas.ImageID) {
	if at, found := h.find(id); !found && at < h.n {
		h.ids = slices.Insert(h.ids, at, id)
		h.ids = h.ids[:min(len(h.ids), h.n)]
	}
}

// Has reports whether the id is among the smallest so far.
func (h *HeldOut) Has(id schemas.ImageID) bool {
	_, found := h.find(id)
	return found
}

// Len returns the number of ids held out so far.
func (h *HeldOut) Len() int { return len(h.ids) }
