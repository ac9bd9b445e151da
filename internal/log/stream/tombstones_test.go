package stream_test

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// tombstoneKeys returns what is forgotten in a log.
func tombstoneKeys(t *testing.T, log *stream.Log) string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(must.Get(log.Tombstones(t.Context()))(t))), " ")
}

// connectTo connects to a namespace whose topics nobody has made.
func connectTo(t *testing.T, broker, namespace string, said *bytes.Buffer) *stream.Log {
	t.Helper()
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Namespace, cfg.Lanes, cfg.Linger = []string{broker}, namespace, 1, 0
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{Logger: slog.New(slog.NewTextHandler(said, nil))}))(t)
	t.Cleanup(log.Close)
	return log
}

// TestNewNamespaceTakesTombstonesOver makes namespaces on brokers where others have taken images back.
func TestNewNamespaceTakesTombstonesOver(t *testing.T) {
	broker := logtest.Broker(t)
	add := func(log *stream.Log, want int, keys ...string) {
		t.Helper()
		notes := make(map[string][]byte)
		for _, k := range keys {
			notes[k] = []byte("{}")
		}
		if n, err := log.AddTombstones(t.Context(), notes); err != nil || n != want {
			t.Errorf("added %d of %q, %v, want %d", n, keys, err, want)
		}
	}
	expect := func(log *stream.Log, want string) {
		t.Helper()
		if got := tombstoneKeys(t, log); got != want {
			t.Errorf("NAMESPACE=%s has the tombstones %q, want %q", log.Config().Namespace, got, want)
		}
	}
	plain, production := logtest.Open(t, broker, "", 1), logtest.Open(t, broker, "production", 2)
	expect(production, "")
	add(plain, 1, "image/a")
	add(production, 2, "image/b", "pair/c")
	add(production, 1, "image/b", "image/a")
	add(production, 0)
	if got := must.Get(production.Namespaces(t.Context()))(t); !slices.Equal(got, []string{""}) {
		t.Errorf("beside production there are %q", got)
	}

	var said bytes.Buffer
	second := connectTo(t, broker, "second", &said)
	must.Do(t, second.EnsureTopics(t.Context()))
	expect(second, "image/a image/b pair/c")
	if text := said.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "namespace=second count=3") {
		t.Errorf("it says %s", text)
	}
	if got := must.Get(second.Namespaces(t.Context()))(t); !slices.Equal(got, []string{"", "production"}) {
		t.Errorf("beside second there are %q", got)
	}

	// A namespace that is there keeps what it has, and so does one that is to have none.
	add(production, 1, "image/d")
	must.Do(t, second.EnsureTopics(t.Context()))
	expect(second, "image/a image/b pair/c")
	third := connectTo(t, broker, "third", &said)
	must.Do(t, third.EnsureTopicsWithoutTombstones(t.Context()))
	expect(third, "")

	// A process that died after it had made the first topic has not taken all over.
	broken := connectTo(t, broker, "broken", &said)
	add(broken, 1, "image/x")
	must.Do(t, broken.EnsureTopics(t.Context()))
	expect(broken, "image/a image/b image/d image/x pair/c")
}

// TestDeadLettersShowNoPasswords has a URL with a password in a reason, whose password would be cut.
func TestDeadLettersShowNoPasswords(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "exp", 1)
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, reason := range []string{"asking http://alice:hunter2@host/x", strings.Repeat("x ", 10) + "http://alice:" + strings.Repeat("hunter2", 10_000) + "@host"} {
		must.Do(t, p.DeadLetter(t.Context(), "encoder", stream.Record{Topic: schemas.Pairs}, reason))
	}
	must.Do(t, p.Close(t.Context()))
	seen := 0
	for rec, err := range log.Records(t.Context(), schemas.DeadLetters, 0, stream.Position{}, -1) {
		must.Do(t, err)
		seen++
		reason, _ := rec.Header("dl-reason")
		if text := string(reason); strings.Contains(text, "hunter2") || !strings.Contains(text, "http://***@host") {
			t.Errorf("the reason is %.100q", text)
		}
	}
	if seen != 2 {
		t.Errorf("%d dead letters, want 2", seen)
	}
}
