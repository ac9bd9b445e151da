package imaging

import (
	"runtime/debug"

	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/content/jpeg"
)

// working bounds the memory of all decoders of the process: together they take as much as one file may.
var working = semaphore.NewWeighted(MaxWorkBytes)

// returnAbove is the memory of a decoder above which freed memory is returned to the system at once. Few images need as
// much.
const returnAbove = 32 << 20

// maxReducedBytes bounds an image reduced for a model. Only long strips are larger, because their shorter side is not
// reduced below the model's needs.
const maxReducedBytes = MaxWorkBytes / 4

// leave releases a decoder's memory for others.
func leave(bytes int64) {
	if bytes > returnAbove {
		// Otherwise the next large image, perhaps in the other language's heap, would add to the memory left by this
		// one.
		debug.FreeOSMemory()
		jpeg.ReturnMemory()
	}
	working.Release(bytes)
}

// costs are the peak bytes of decoding.
type costs struct {
	first  int64 // of the decoder that is tried first, with the result
	judge  int64 // of image/jpeg, with the result
	result int64
}

// costs returns the peak bytes of decoding if the decoder shrinks by one factor and the total reduction is another.
func (h Header) costs(shrink, factor int) costs {
	c := costs{result: 3 * h.pixels() / int64(factor*factor)}
	rest := c.result
	if h.orientation > 1 { // turning copies the result
		rest *= 2
	}
	c.first, c.judge = h.WorkBytes+rest, h.judgeBytes+rest
	if h.Format == "jpeg" && factor > shrink {
		c.first += 3 * h.pixels() / int64(shrink*shrink) // the decoder's result, before the averaging
	}
	return c
}
