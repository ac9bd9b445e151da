package imaging

import (
	"runtime/debug"

	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/content/jpeg"
)

// working bounds the memory of all decoders of the process: together they take what one file may take.
var working = semaphore.NewWeighted(MaxWorkBytes)

// returnAbove is the memory of a decoder behind which freed memory goes back to the system at once. Few images take as
// much.
const returnAbove = 32 << 20

// maxReducedBytes bounds an image that was reduced for a model. Only long strips are larger: their shorter side is not
// reduced below what the model needs.
const maxReducedBytes = MaxWorkBytes / 4

// leave makes room for other decoders.
func leave(bytes int64) {
	if bytes > returnAbove {
		// Otherwise the next large image, perhaps in the other language's heap, comes on top of what this one leaves.
		debug.FreeOSMemory()
		jpeg.ReturnMemory()
	}
	working.Release(bytes)
}

// costs is what decoding takes at most, in bytes.
type costs struct {
	first  int64 // of the decoder that is tried first, with the result
	judge  int64 // of image/jpeg, with the result
	result int64
}

// costs returns what decoding takes when the decoder shrinks by one factor and the whole is reduced by another.
func (h Header) costs(shrink, factor int) costs {
	c := costs{result: 3 * h.pixels() / int64(factor*factor)}
	rest := c.result
	if h.orientation > 1 { // turning copies the result
		rest *= 2
	}
	c.first, c.judge = h.WorkBytes+rest, h.judgeBytes+rest
	if h.Format == "jpeg" && factor > shrink {
		c.first += 3 * h.pixels() / int64(shrink*shrink) // what the decoder gives, before the averaging
	}
	return c
}
