package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/schemas"
)

// TestLead lets three processes ask for the lead, one after the other. One leads at any time; who loses the lead,
// because others have come, asks again and does not fail.
func TestLead(t *testing.T) {
	b := startBroker(t, broker.Options{})
	var leading, turns atomic.Int32
	lead := func(ctx context.Context) error {
		if n := leading.Add(1); n != 1 {
			t.Errorf("%d lead at once", n)
		}
		defer leading.Add(-1)
		turns.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan error)
	for i := range 3 {
		c := connect(t, testConfig(b.Addr(), "led", 1))
		go func() { ends <- c.Lead(ctx, "leaders", schemas.Sources, lead) }()
		for end := time.Now().Add(time.Minute); turns.Load() <= int32(i); time.Sleep(10 * time.Millisecond) {
			select {
			case err := <-ends:
				t.Fatalf("with %d processes, one has ended: %v", i+1, err)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("%d turns with %d processes: nobody leads again", turns.Load(), i+1)
			}
		}
	}
	cancel()
	for range 3 {
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("a process ended with %v", err)
		}
	}
}
