package broker_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestClientsOfABrokerThatHasStopped breaks the disk under a broker. Its clients in the process end with the cause, and
// do not ask again for ever.
func TestClientsOfABrokerThatHasStopped(t *testing.T) {
	var broken atomic.Bool
	b := must.Get(broker.Start(broker.OnDisk(broker.Options{DataDir: t.TempDir()}, func() error {
		if broken.Load() {
			return syscall.EIO
		}
		return nil
	})))(t)
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{b.Addr()}, 1
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{}))(t)
	defer log.Close()
	must.Do(t, log.EnsureTopics(t.Context()))
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Seal{}))
	must.Do(t, p.Flush(t.Context()))
	broken.Store(true)
	must.Do(t, p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Seal{}))
	if err := p.Close(t.Context()); !errors.Is(err, broker.ErrStopped) || !errors.Is(err, syscall.EIO) {
		t.Errorf("a publisher gets %v", err)
	}
	if _, err := log.Bounds(t.Context(), schemas.Pairs, 0); !errors.Is(err, broker.ErrStopped) {
		t.Errorf("a reader gets %v", err)
	}
	if err := b.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("closing returns %v", err)
	}
}
