package imaging

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"time"
)

// maxDecodeTime is how long a decoder in Go may work, in time of its processor: how loaded the machine is has no part
// in it. The limits on what a header declares keep files of ordinary encoders far below; this one is for compressed
// data that costs much and gives nothing, such as a million empty blocks.
const maxDecodeTime = 1500 * time.Millisecond

// checkEvery is how many bytes a decoder reads between two looks at the clock.
const checkEvery = 64 << 10

// patientReader gives a decoder the bytes of a file until its time is over.
type patientReader struct {
	bytes.Reader
	deadline  time.Duration // of the thread's time
	unchecked int
}

// decodeWithin runs a decoder on a thread of its own, whose time is measured.
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

// onlyReader hides the other methods, by which a decoder would read on without a look at the clock.
type onlyReader struct{ io.Reader }
