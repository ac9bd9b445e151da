package ingest

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// errBusy says that the bodies of all requests together take what they may.
var errBusy = errors.New("too many bytes of other requests are in memory: send it again in a moment")

// errLong marks a part of a body that is larger than it may be.
var errLong = errors.New("too large")

// budget bounds the bytes of all requests together.
type budget struct{ left atomic.Int64 }

func newBudget(n int64) *budget {
	b := new(budget)
	b.left.Store(n)
	return b
}

// purse holds the bytes that one request has taken of the budget. It is for one goroutine.
type purse struct {
	of    *budget
	taken int64
}

// take takes n bytes, or returns [errBusy].
func (p *purse) take(n int64) error {
	if p.of.left.Add(-n) < 0 {
		p.of.left.Add(n)
		return errBusy
	}
	p.taken += n
	return nil
}

// give gives back all.
func (p *purse) give() {
	p.of.left.Add(p.taken)
	p.taken = 0
}

// firstRead is the room with which reading begins.
const firstRead = 16 << 10

// read reads all of r, which may have so many bytes. A client that sends nothing takes no room.
func (p *purse) read(r io.Reader, most int) ([]byte, error) {
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			room := max(firstRead, 2*cap(buf))
			if err := p.take(int64(room - cap(buf))); err != nil {
				return nil, err
			}
			buf = append(make([]byte, 0, room), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > most:
			return nil, fmt.Errorf("%w: more than %d bytes", errLong, most)
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}
