package broker

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestNothingIsToldBeforeItIsOnTheDisk holds up the sync of one partition. Neither the ack nor the record may come
// before.
func TestNothingIsToldBeforeItIsOnTheDisk(t *testing.T) {
	var held, released atomic.Bool
	syncing, release := make(chan struct{}, 100), make(chan struct{})
	b := startBroker(t, Options{DataDir: t.TempDir(), disk: &testDisk{before: func(op, path string) error {
		if held.Load() && op == opSync && strings.Contains(path, "pairs-0") {
			syncing <- struct{}{}
			<-release
		}
		return nil
	}}})
	c := dial(t, b)
	c.create(t, "pairs", nil)
	c.create(t, "embeddings", nil)
	c.put(t, "pairs", "before")
	reader := dial(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"pairs": {0: kgo.NewOffset().At(1)}}))
	held.Store(true)
	told := make(chan string, 2)
	tell := func(what string) {
		if !released.Load() {
			what += " too early"
		}
		told <- what
	}
	go func() {
		err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "pairs"}).FirstErr()
		tell("ack")
		must.Check(t, err)
	}()
	go func() {
		fetches := reader.PollFetches(t.Context())
		tell("record")
		must.Check(t, fetches.Err())
	}()
	select {
	case <-syncing:
	case what := <-told:
		t.Fatalf("got %q before any sync", what)
	}
	for range 50 { // others are served meanwhile
		c.end(t, "embeddings")
	}
	released.Store(true)
	close(release)
	got := []string{<-told, <-told}
	if slices.Sort(got); !slices.Equal(got, []string{"ack", "record"}) {
		t.Errorf("got %q", got)
	}
}

// TestDurableAnswersNoMoreAfterAFailedSync fails one sync. The next one would succeed without the lost bytes.
func TestDurableAnswersNoMoreAfterAFailedSync(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken disk")
	var fails atomic.Bool
	b := must.Get(Start(Options{DataDir: dir, disk: &testDisk{before: func(op, path string) error {
		if fails.Load() && op == opSync && strings.Contains(path, "pairs-0") {
			return broken
		}
		return nil
	}}}))(t)
	c := dial(t, b, kgo.RecordRetries(0), kgo.RequestRetries(0))
	c.create(t, "pairs", nil)
	c.put(t, "pairs", "before")
	fails.Store(true)
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "pairs", Value: []byte("lost")}).FirstErr(); err == nil {
		t.Error("a record was acknowledged that is not on the disk")
	}
	fails.Store(false)
	if err := b.Wait(t.Context()); !errors.Is(err, broken) || !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err := DialInProcess(t.Context(), b.Addr()); !errors.Is(err, broken) {
		t.Errorf("a client gets %v, want %v", err, broken)
	}
	if err := b.Close(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	again := startBroker(t, Options{DataDir: dir})
	if got := values(t, again, "pairs"); len(got) == 0 || got[0] != "before" {
		t.Errorf("got %q", got)
	}
}

func TestPartitionsInAnswers(t *testing.T) {
	id := [16]byte{1}
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets} {
		for version := range key.Response().MaxVersion() + 1 {
			resp := key.Response()
			resp.SetVersion(version)
			switch r := resp.(type) {
			case *kmsg.ProduceResponse:
				r.Topics = []kmsg.ProduceResponseTopic{{Topic: "a b", TopicID: id, Partitions: []kmsg.ProduceResponseTopicPartition{{Partition: 3}}}}
			case *kmsg.FetchResponse:
				r.Topics = []kmsg.FetchResponseTopic{{Topic: "a b", TopicID: id, Partitions: []kmsg.FetchResponseTopicPartition{{Partition: 3}}}}
			case *kmsg.ListOffsetsResponse:
				r.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "a b", Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Partition: 3}}}}
			}
			answer := make([]byte, answerHead)
			if resp.IsFlexible() {
				answer = append(answer, 0)
			}
			answer = resp.AppendTo(answer)
			want := []string{"partitions/a%20b-3"}
			if key != kmsg.ListOffsets && version >= 13 {
				want = nil // a topic id alone
			}
			if got := partitionsIn(pendingRequest{key: key, version: version}, answer); !slices.Equal(got, want) {
				t.Errorf("%s, version %d: got %q, want %q", key.Name(), version, got, want)
			}
			if got := partitionsIn(pendingRequest{key: key, version: version}, answer[:len(answer)-1]); len(got) > 0 && !slices.Equal(got, want) {
				t.Errorf("%s, version %d, cut short: got %q", key.Name(), version, got)
			}
		}
	}
}

func TestAnsweredBy(t *testing.T) {
	answer := func(number byte) []byte { return []byte{0, 0, 0, 4, 0, 0, 0, number} }
	pending := []pendingRequest{{key: kmsg.Produce, number: 1}, {key: kmsg.Fetch, number: 2}, {key: kmsg.Heartbeat, number: 3}}
	for name, c := range map[string]struct {
		answer []byte
		key    kmsg.Key
		left   int
	}{
		"the first":              {answer(1), kmsg.Produce, 2},
		"one before has no ack":  {answer(2), kmsg.Fetch, 1},
		"the last":               {answer(3), kmsg.Heartbeat, 0},
		"one that was dropped":   {answer(9), -1, 3},
		"no answer of any kind":  {nil, -1, 3},
		"shorter than an answer": {[]byte{0, 0, 0, 4}, -1, 3},
	} {
		r, rest := answeredBy(pending, c.answer)
		if r.key != c.key || len(rest) != c.left {
			t.Errorf("%s: got key %d and %d left, want %d and %d", name, r.key, len(rest), c.key, c.left)
		}
	}
}
