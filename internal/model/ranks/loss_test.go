package ranks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// hangUp ends as a process that is killed does.
func hangUp(m *Member) {
	for _, one := range m.others() {
		_ = one.conn.(secured).NetConn().Close()
	}
}

// lose runs a sum in which rank 2 of 4 is lost, and returns what the others say, by rank.
func lose(t *testing.T, leader *Leader, members []*Member) []error {
	t.Helper()
	said := make([]error, 4)
	var summing sync.WaitGroup
	for _, rank := range []int{1, 3} {
		summing.Go(func() {
			_, said[rank] = members[rank].Sum(t.Context(), Part{Vectors: [][]float32{{1}}})
			members[rank].Close(said[rank])
		})
	}
	_, said[0] = leader.Sum(t.Context(), Part{Vectors: [][]float32{{1}}}, func([][]byte) ([]byte, error) { return nil, nil })
	leader.Close(said[0])
	summing.Wait()
	return said
}

// All ranks that are left name the one that is lost, and why.
func TestALostRankIsNamed(t *testing.T) {
	for want, how := range map[string]func(*Member){
		"is lost: its connection is closed; the training goes on when all ranks are back": hangUp,
		"has ended: it was stopped; the training goes on when all ranks are back":         func(m *Member) { m.Close(errors.Join(errStopped)) },
		"has ended: the weights are broken":                                               func(m *Member) { m.Close(errors.New("the weights are broken")) },
	} {
		leader, members := gather(t, 4, unchanged)
		how(members[2])
		for rank, err := range lose(t, leader, members) {
			if rank == 2 {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "rank 2 ") || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "goes on when") > 1 {
				t.Errorf("rank %d says %v, want that rank 2 %s", rank, err, want)
			}
			if errors.Is(err, ErrLost) != strings.Contains(want, "goes on when") {
				t.Errorf("rank %d: %v: is it a loss?", rank, err)
			}
		}
		if err := leader.Watch(t.Context()); err == nil || !strings.Contains(err.Error(), "rank 2") {
			t.Errorf("the watch says %v", err)
		}
	}
}

// A rank that is lost while the ranks join one another is named by all, at once.
func TestARankIsLostBeforeItIsJoined(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().String()
	said := make(chan error, 2)
	go func() {
		_, err := lead(t.Context(), listener, testOptions(0, 3, address))
		said <- err
	}()
	first := must.Get(apply(t.Context(), testOptions(1, 3, address)))(t)
	go func() {
		_, err := first.settle(t.Context())
		said <- err
	}()
	second := must.Get(apply(t.Context(), testOptions(2, 3, address)))(t)
	must.Get(second.roster(t.Context()))(t)
	must.Check(t, errors.Join(second.close(), second.leader.conn.(secured).NetConn().Close()))
	for range 2 {
		if err := <-said; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "rank 2 (") {
			t.Errorf("%v", err)
		}
	}
}

type stopped struct{}

func (stopped) Error() string        { return "it was stopped" }
func (stopped) Is(target error) bool { return target == ErrLost }

var errStopped = stopped{}

// dial connects to a rank as another process does, without an introduction.
func dial(t *testing.T, address string) secured {
	t.Helper()
	conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", address))(t)
	keys := must.Get(newTLS())(t)
	over := must.Get(secure(t.Context(), conn, keys, false))(t)
	return over
}

// A rank that says nothing is lost as well, though its connection stands.
func TestASilentRankIsNamed(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().String()
	quick := func(rank int) Options {
		o := testOptions(rank, 2, address)
		o.Silence = time.Second
		return o
	}
	silent := make(chan net.Conn, 1)
	go func() {
		conn := dial(t, address)
		err := introduce(conn, conn.binding, quick(1), hello{Facts: quick(1).Facts})
		if err == nil {
			_, _, err = readFrame(conn, maxFrame) // the roster
		}
		if err == nil {
			err = writeFrame(conn, kindReady, nil)
		}
		must.Check(t, err)
		silent <- conn
	}()
	leader, err := lead(t.Context(), listener, quick(0))
	must.Do(t, err)
	conn := <-silent
	_, err = leader.Hear(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), "rank 1 ("+conn.LocalAddr().String()+") is lost: nothing was heard of it for 1s (RANK_TIMEOUT)") {
		t.Errorf("%v", err)
	}
	must.Check(t, conn.Close())
	leader.Close(err)
}

// What the leader holds when it is lost reaches nobody; the others say so.
func TestALostLeader(t *testing.T) {
	leader, members := gather(t, 3, unchanged)
	for _, l := range leader.others() {
		must.Check(t, l.conn.Close())
	}
	for _, m := range members[1:] {
		if _, err := m.Hear(t.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "rank 0 (") {
			t.Errorf("%v", err)
		}
		if err := m.Watch(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("the watch says %v", err)
		}
	}
}

// A rank that leaves, because it has lost another one at the end, hears that the training is over. The leader knows
// whom it could not tell.
func TestTheEndIsHeardWhileLeaving(t *testing.T) {
	leader, members := gather(t, 3, unchanged)
	hangUp(members[2])
	lost := members[1].Watch(t.Context())
	if !errors.Is(lost, ErrLost) || !strings.Contains(lost.Error(), "rank 2 (") || members[1].Over() {
		t.Errorf("rank 1 says %v, over: %t", lost, members[1].Over())
	}
	<-leader.links[2].reading
	if leader.Close(nil) {
		t.Error("the leader has told a rank that is gone")
	}
	members[1].Close(lost)
	if !members[1].Over() {
		t.Error("rank 1 has not heard that the training is over")
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	leader, members := gather(t, 2, unchanged)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leader.Hear(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := members[1].Sum(ctx, Part{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	must.Check(t, errors.Join(leader.Watch(ctx), members[1].Watch(ctx)))
}

// Ranks whose models differ are told so, and the group ends.
func TestVectorsThatDoNotFit(t *testing.T) {
	for want, theirs := range map[string][][]float32{
		"rank 1 has 1 vectors, rank 0 has 2: want the same model on all ranks": {{1}},
		"vector 1 has 3 values on rank 1 and 2 on a rank before":               {{1}, {1, 2, 3}},
	} {
		leader, members := gather(t, 2, unchanged)
		told := make(chan error, 1)
		go func() {
			_, err := members[1].Sum(t.Context(), Part{Vectors: theirs})
			told <- err
		}()
		_, err := leader.Sum(t.Context(), Part{Vectors: [][]float32{{1}, {1, 2}}}, func([][]byte) ([]byte, error) { return nil, nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
		leader.Close(err)
		if err := <-told; err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrLost) {
			t.Errorf("rank 1 says %v", err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, k := range []kind{kindChallenge, kindMessage, kindEnd} {
		var b bytes.Buffer
		must.Do(f, writeFrame(&b, k, []byte("payload")))
		f.Add(b.Bytes())
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0x03, byte(kindMessage)}) // a length alone
	f.Add([]byte{0xff, 0xff, 0xff, 0x03, byte(kindSum)})     // more than a chunk
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, payload, err := readFrame(bytes.NewReader(raw), maxFrame)
		if err != nil {
			if payload != nil {
				t.Error("an error with a payload")
			}
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, k, payload); err != nil || !bytes.HasPrefix(raw, again.Bytes()) {
			t.Errorf("%x, %v", again.Bytes(), err)
		}
	})
}

func TestFramesHaveALimit(t *testing.T) {
	if err := writeFrame(io.Discard, kindMessage, make([]byte, maxFrame+1)); err == nil {
		t.Error("a frame that is too large was written")
	}
	raw := slices.Concat([]byte{9, 0, 0, 0, byte(kindMessage)}, make([]byte, 9))
	for _, k := range []kind{kindPiece, kindSum, kindBeat} {
		raw := slices.Concat([]byte{1, 0, 4, 0, byte(k)}, make([]byte, maxChunk+1))
		if _, _, err := readFrame(bytes.NewReader(raw), maxFrame); err == nil || !strings.Contains(err.Error(), "262145 bytes, want at most") {
			t.Errorf("%v", err)
		}
	}
	if _, _, err := readFrame(bytes.NewReader(raw), 8); err == nil || !strings.Contains(err.Error(), "9 bytes, want at most 8") {
		t.Errorf("%v", err)
	}
}
