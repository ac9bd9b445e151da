package imaging

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"time"
)

// maxDecodeTime bounds a decoder in Go, in processor time, so the load of the machine does not matter. The limits on
// the header keep files of ordinary encoders far below; this one is for compressed data that costs much and gives
// nothing, such as a million empty blocks.
const maxDecodeTime = 1500 * time.Millisecond

// checkEvery is the number of bytes that a decoder reads between two checks of the clock.
const checkEvery = 64 << 10

// patientReader reads the bytes of a file until the decoder's time is over.
type patientReader struct {
	bytes.Reader
	deadline  time.Duration // of the thread's time
	unchecked int
}

// decodeWithin runs a decoder on a separate thread, whose time is measured.
func decodeWithin[T any](encoded []byte, decode func(io.Reader) (T, error)) (T, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &patientReader{deadline: threadTime() + maxDecodeTime}
	r.Reset(encoded)
	out, err := decode(onlyReader{r})
	if err != nil && r.over() {
		return out, fmt.Errorf("%w: decoding takes more than %v", ErrTooLarge, maxDecodeTime)
	}
	return out, err
}

func (r *patientReader) over() bool { return threadTime() > r.deadline }

// Read implements [io.Reader].
func (r *patientReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.unchecked += n; r.unchecked >= checkEvery {
		r.unchecked = 0
		if r.over() {
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// onlyReader hides the other methods, through which a decoder would read without a check of the clock.
type onlyReader struct{ io.Reader }
