package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrLost marks the loss of a rank, or its orderly stop, in the middle of a training. The others' state is sound.
var ErrLost = errors.New("the training goes on when all ranks are back")

// ErrDone means that the leader has ended the training because it is complete.
var ErrDone = errors.New("rank 0 has ended the training")

// goodbye is a rank's last message.
type goodbye struct {
	Done   bool   `json:",omitempty"` // the training is over
	Failed bool   `json:",omitempty"` // the rank's state may be broken
	Text   string `json:",omitempty"` // why, unless Done
}

// link is a connection to another rank, after the handshake.
type link struct {
	rank    int // at the other end
	conn    net.Conn
	address string // where the peer listens for ranks
	silence time.Duration

	sending  sync.Mutex // held for a frame
	messages inbox
	roster   chan []byte // unread frames, one channel for each kind
	ready    chan []byte
	shapes   chan []byte
	plans    chan []byte
	pieces   chan []byte
	sums     chan []byte
	sent     atomic.Int64 // bytes of frames
	received atomic.Int64
	closing  chan struct{} // this side has said goodbye: later frames are dropped
	close    sync.Once
	lost     chan struct{} // closed when err is set
	fail     sync.Once
	err      error
	over     atomic.Bool   // the other end has ended the training in order
	reading  chan struct{} // closed when nothing more is read
}

func newLink(rank int, conn net.Conn, silence time.Duration) *link {
	l := &link{
		rank: rank, conn: conn, silence: silence, messages: newInbox(),
		roster: make(chan []byte, 1), ready: make(chan []byte, 1), shapes: make(chan []byte, 1), plans: make(chan []byte, 1),
		pieces: make(chan []byte, ahead), sums: make(chan []byte, ahead),
		closing: make(chan struct{}), lost: make(chan struct{}), reading: make(chan struct{}),
	}
	go l.listen()
	go l.beat()
	return l
}

// failed ends the link with an error. The first one counts.
func (l *link) failed(err error) {
	l.fail.Do(func() {
		l.err = err
		close(l.lost)
	})
}

// gone converts an error of the connection.
func (l *link) gone(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("nothing was heard of it for %s (RANK_TIMEOUT)", l.silence)
	case slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE}, func(e error) bool { return errors.Is(err, e) }):
		err = errors.New("its connection is closed")
	}
	return fmt.Errorf("rank %d (%s) is lost: %w; %w", l.rank, l.conn.RemoteAddr(), err, ErrLost)
}

// listen sorts what arrives, until the link ends.
func (l *link) listen() {
	defer close(l.reading)
	defer l.conn.Close() // the peer waits for it, and it ends a blocked write
	for {
		k, payload, err := l.read()
		if err == nil && k == kindEnd {
			why := leaving(l.rank, payload)
			l.over.Store(errors.Is(why, ErrDone))
			l.failed(why)
			return
		}
		if err == nil {
			err = l.take(k, payload)
		}
		if err != nil {
			l.failed(l.gone(err))
			return
		}
	}
}

// read reads the next frame, within RANK_TIMEOUT.
func (l *link) read() (kind, []byte, error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(l.silence)); err != nil {
		return 0, nil, err
	}
	return readFrame(l.conn, maxFrame)
}

// take hands a frame to its reader. It never blocks, so that beats are heard: each kind has its bound.
func (l *link) take(k kind, payload []byte) error {
	l.received.Add(int64(headerBytes + len(payload)))
	var to chan []byte
	switch k {
	case kindBeat:
		return nil
	case kindMessage:
		l.messages.put(payload)
		return nil
	case kindRoster:
		to = l.roster
	case kindReady:
		to = l.ready
	case kindShape:
		to = l.shapes
	case kindPlan:
		to = l.plans
	case kindPiece:
		to = l.pieces
	case kindSum:
		to = l.sums
	default:
		return fmt.Errorf("it sent a frame of kind %d after the handshake", k)
	}
	select {
	case to <- payload:
		return nil
	default:
		return fmt.Errorf("it sent more frames of kind %d than %d, for which nobody has asked", k, cap(to))
	}
}

// leaving returns the error of a goodbye.
func leaving(rank int, payload []byte) error {
	var f goodbye
	switch err := json.Unmarshal(payload, &f); {
	case err != nil:
		return fmt.Errorf("rank %d has ended: reading why: %w", rank, err)
	case f.Done:
		return ErrDone
	case f.Failed:
		return fmt.Errorf("rank %d has ended: %s", rank, f.Text)
	}
	return fmt.Errorf("rank %d has ended: %s; %w", rank, f.Text, ErrLost)
}

// goodbyeFor returns the goodbye of a rank that ends with an error.
func goodbyeFor(why error) goodbye {
	return goodbye{Text: strings.TrimSuffix(why.Error(), "; "+ErrLost.Error()), Failed: !errors.Is(why, ErrLost)}
}

// beat sends signs of life.
func (l *link) beat() {
	beats := time.NewTicker(l.silence / 4)
	defer beats.Stop()
	for {
		select {
		case <-beats.C:
			if !l.sending.TryLock() {
				continue // a frame being sent is also a sign of life
			}
			err := l.write(kindBeat, nil)
			l.sending.Unlock()
			if err != nil {
				return // read reports the cause
			}
		case <-l.closing:
			return
		case <-l.lost:
			return
		}
	}
}

// write writes a frame while sending is held. The peer reads at all times, or says goodbye within RANK_TIMEOUT. A write
// may take longer than that, so the goodbye arrives first.
func (l *link) write(k kind, payload []byte) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(2 * l.silence)); err != nil {
		return err
	}
	if err := writeFrame(l.conn, k, payload); err != nil {
		return err
	}
	l.sent.Add(int64(headerBytes + len(payload)))
	return nil
}

// send writes a frame. If that fails, it returns the peer's reason.
func (l *link) send(k kind, payload []byte) error {
	select {
	case <-l.lost:
		return l.err
	default:
	}
	l.sending.Lock()
	err := l.write(k, payload)
	l.sending.Unlock()
	if err == nil {
		return nil
	}
	select {
	case <-l.reading:
	case <-time.After(l.silence):
	}
	l.failed(l.gone(err))
	return l.err
}

// hear returns the next message.
func (l *link) hear(ctx context.Context) ([]byte, error) {
	for {
		if m, there := l.messages.get(); there {
			return m, nil
		}
		select {
		case <-l.messages.news:
		case <-l.lost:
			if m, there := l.messages.get(); there { // it came before the loss
				return m, nil
			}
			return nil, l.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// from waits for a value that the link passes on.
func from[T any](ctx context.Context, l *link, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	default:
	}
	select {
	case v = <-c:
		return v, nil
	case <-l.lost:
		select {
		case v = <-c: // it came before the loss
			return v, nil
		default:
			return v, l.err
		}
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// goodbyeTime bounds the time that a link waits for the peer to read a goodbye.
const goodbyeTime = 5 * time.Second

// end says goodbye and closes the connection. It waits until the peer has also closed it, because closing with unread
// bytes would destroy bytes in transit. end reports whether the goodbye was sent.
func (l *link) end(f goodbye) (sent bool) {
	l.close.Do(func() {
		close(l.closing)
		defer func() { <-l.reading }()
		defer l.conn.Close()
		select {
		case <-l.reading:
			return
		default:
		}
		raw, err := json.Marshal(f)
		if err != nil {
			return
		}
		l.sending.Lock()
		defer l.sending.Unlock()
		if sent = l.write(kindEnd, raw) == nil; !sent {
			return
		}
		if half, ok := l.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
			return
		}
		select {
		case <-l.reading:
		case <-time.After(goodbyeTime):
		}
	})
	return sent
}

// inbox holds unread messages. Their sender bounds their number.
type inbox struct {
	mu    *sync.Mutex
	queue *[][]byte
	news  chan struct{}
}

func newInbox() inbox { return inbox{new(sync.Mutex), new([][]byte), make(chan struct{}, 1)} }

func (i inbox) put(m []byte) {
	i.mu.Lock()
	*i.queue = append(*i.queue, m)
	i.mu.Unlock()
	select {
	case i.news <- struct{}{}:
	default:
	}
}

func (i inbox) get() ([]byte, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(*i.queue) == 0 {
		return nil, false
	}
	m := (*i.queue)[0]
	*i.queue = (*i.queue)[1:]
	return m, true
}
