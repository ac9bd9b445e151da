package ranks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

// stuck is a transport whose sums end with their context alone, as those of a library that hears of no loss.
type stuck struct {
	refuses int // the rank whose Open fails; -1: none
	mu      *sync.Mutex
	ids     map[string]int // how many ranks were opened, by id
	closed  *int
	summing chan struct{}
}

var errNoGPU = errors.New("this rank has no GPU")

func (s stuck) NewID() ([]byte, error) { return newNonce(), nil }

func (s stuck) Open(ctx context.Context, id []byte, rank, _ int) (Exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[string(id)]++
	if rank == s.refuses {
		return nil, errNoGPU
	}
	return s, ctx.Err()
}

func (s stuck) AllReduce(ctx context.Context, _ Plan, _ [][]float32) error {
	s.summing <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (s stuck) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.closed++
	return nil
}

func newStuck(refuses int) stuck {
	return stuck{refuses, new(sync.Mutex), map[string]int{}, new(int), make(chan struct{}, 4)}
}

// A sum over another transport ends when a rank is lost, and the others name it. All ranks had one id, and leave the
// exchange.
func TestALossEndsASumOverATransport(t *testing.T) {
	s := newStuck(-1)
	leader, members := gather(t, 2, func(o *Options) { o.Transport = s })
	if len(s.ids) != 1 {
		t.Errorf("%d ids, want one for all ranks", len(s.ids))
	}
	part := Part{Vectors: [][]float32{{1}}}
	var summing sync.WaitGroup
	summing.Go(func() {
		if _, err := members[1].Sum(t.Context(), part); !errors.Is(err, ErrLost) {
			t.Errorf("rank 1 says %v, want a loss", err)
		}
	})
	summing.Go(func() {
		_, err := leader.Sum(t.Context(), part, func([][]byte) ([]byte, error) { return nil, nil })
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "rank 1 ") {
			t.Errorf("rank 0 says %v, want the loss of rank 1", err)
		}
	})
	for range 2 {
		<-s.summing
	}
	hangUp(members[1])
	summing.Wait()
	leader.Close(errStopped)
	members[1].Close(errStopped)
	if *s.closed != 2 {
		t.Errorf("%d exchanges were closed, want 2", *s.closed)
	}
}

// A rank that cannot open the transport says why to all.
func TestATransportThatDoesNotOpen(t *testing.T) {
	s, listener := newStuck(1), listen(t)
	joined := make(chan error, 1)
	go func() {
		o := testOptions(1, 2, listener.Addr().String())
		o.Transport = s
		_, err := Join(t.Context(), o)
		joined <- err
	}()
	o := testOptions(0, 2, listener.Addr().String())
	o.Transport = s
	leader, err := lead(t.Context(), listener, o)
	if err == nil { // rank 0 was ready before
		err = leader.Watch(t.Context())
		leader.Close(err)
	}
	if err == nil || !strings.Contains(err.Error(), errNoGPU.Error()) {
		t.Errorf("rank 0 says %v, want what rank 1 lacks", err)
	}
	if err := <-joined; !errors.Is(err, errNoGPU) {
		t.Errorf("rank 1 says %v, want %v", err, errNoGPU)
	}
}

// seen is an exchange that shows the context of its sums.
type seen struct {
	Exchange
	look func(context.Context)
}

func (s seen) AllReduce(ctx context.Context, p Plan, vectors [][]float32) error {
	s.look(ctx)
	return s.Exchange.AllReduce(ctx, p, vectors)
}

// Links notice a loss by themselves, behind all that came before it. So rank 0's end must not end the sums of others,
// which it has made already.
func TestTheEndOfRankZeroLeavesSumsOverLinksAlone(t *testing.T) {
	leader, members := gather(t, 2, unchanged)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	same := false
	members[1].exchange = seen{members[1].exchange, func(got context.Context) { same = got == ctx }}
	part := Part{Vectors: [][]float32{{1}}}
	var summing sync.WaitGroup
	summing.Go(func() {
		if _, err := members[1].Sum(ctx, part); err != nil {
			t.Error(err)
		}
	})
	if _, err := leader.Sum(t.Context(), part, func([][]byte) ([]byte, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	summing.Wait()
	if !same {
		t.Error("a sum over links has a context that a loss may end, want the caller's")
	}
}
