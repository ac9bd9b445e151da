// Package logtest gives tests a log on an embedded broker of their own.
package logtest

import (
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Broker starts a broker that ends with the test, and returns its address.
func Broker(t testing.TB) string {
	t.Helper()
	broker := must.Get(broker.Start(broker.Options{}))(t)
	t.Cleanup(func() { must.Check(t, broker.Close()) })
	return broker.Addr()
}

// Open opens the log of a namespace, whose topics it makes. changes are made to its configuration before.
func Open(t testing.TB, broker, namespace string, lanes int, changes ...func(*stream.Config)) *stream.Log {
	t.Helper()
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Namespace, cfg.Lanes, cfg.Linger = []string{broker}, namespace, lanes, 0
	for _, change := range changes {
		change(&cfg)
	}
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{}))(t)
	t.Cleanup(log.Close)
	must.Do(t, log.EnsureTopics(t.Context()))
	return log
}
