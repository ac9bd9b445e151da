package broker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestNothingIsToldBeforeItIsOnTheDisk holds up the sync of one partition. Neither the ack nor the record may come before.
func TestNothingIsToldBeforeItIsOnTheDisk(t *testing.T) {
	var held, released atomic.Bool
	syncing, release := make(chan struct{}, 100), make(chan struct{})
	b := startBroker(t, Options{DataDir: t.TempDir(), sync: func(f *os.File) error {
		if held.Load() && strings.Contains(f.Name(), "pairs-0") {
			syncing <- struct{}{}
			<-release
		}
		return f.Sync()
	}})
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

// TestBrokerSyncsWhatItAcknowledges compares the files with what was synced of them, since no test can cut the power.
func TestBrokerSyncsWhatItAcknowledges(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, Options{DataDir: dir})
	c := dial(t, b)
	c.create(t, "pairs", nil)
	for range 20 {
		c.put(t, "pairs", "a pair")
		for _, name := range []string{"0.dat", "0.idx"} {
			info := must.Get(os.Stat(filepath.Join(dir, "log", partitionsFolder, "pairs-0", name)))(t)
			if synced := b.durable.synced(filepath.Join(partitionsFolder, "pairs-0"), name); synced == nil || synced.Size() < info.Size() {
				t.Fatalf("%s has %d bytes, and was synced with %v", name, info.Size(), synced)
			}
		}
	}
}

// synced returns a file as it was synced last, nil when it was not.
func (d *durable) synced(folder, name string) os.FileInfo {
	d.mu.Lock()
	f := d.folders[folder]
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[name]
}

func TestDurableSyncsWhatChanged(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, partitionsFolder, "pairs-0")
	must.Do(t, os.MkdirAll(folder, 0o755))
	var synced []string
	names := make(chan string, 10)
	d := newDurable(dir, func(f *os.File) error {
		names <- filepath.Base(f.Name())
		return nil
	})
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing is there", func() {}, ""},
		{"files appear", func() { write("0.dat", "a"); write("0.idx", "b"); write("snapshot.json", "c") }, "0.dat 0.idx pairs-0"},
		{"nothing changes", func() {}, ""},
		{"one grows", func() { write("0.dat", "aa") }, "0.dat"},
		{"the next segment", func() { write("0.dat", "aaa"); write("7.dat", "a") }, "0.dat 7.dat pairs-0"},
		{"one is replaced", func() {
			write("new", "b")
			must.Do(t, os.Rename(filepath.Join(folder, "new"), filepath.Join(folder, "0.idx")))
		}, "0.idx pairs-0"},
		{"one is removed", func() { _ = os.Remove(filepath.Join(folder, "0.dat")) }, ""},
		{"and comes back", func() { write("0.dat", "aaa") }, "0.dat pairs-0"},
		{"all are removed", func() { _ = os.RemoveAll(folder) }, ""},
	} {
		step.do()
		if err := d.settleAll(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		for synced = nil; len(names) > 0; {
			synced = append(synced, <-names)
		}
		slices.Sort(synced)
		if got := strings.Join(synced, " "); got != step.want {
			t.Errorf("%s: synced %q, want %q", step.name, got, step.want)
		}
	}
}

// TestDurableAnswersNoMoreAfterAFailedSync fails one sync. The next one would succeed without the lost bytes.
func TestDurableAnswersNoMoreAfterAFailedSync(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken disk")
	fails := true
	d := newDurable(dir, func(*os.File) error {
		if fails {
			return broken
		}
		return nil
	})
	must.Do(t, os.WriteFile(filepath.Join(dir, "groups.log"), []byte("a"), 0o600))
	for range 2 {
		if err := d.await(kmsg.OffsetCommit, 8, nil); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		fails = false
	}
	if err := d.await(kmsg.Heartbeat, 0, nil); err != nil {
		t.Errorf("a heartbeat tells of no record: %v", err)
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
			if got := partitionsIn(key, version, answer); !slices.Equal(got, want) {
				t.Errorf("%s, version %d: got %q, want %q", key.Name(), version, got, want)
			}
			if got := partitionsIn(key, version, answer[:len(answer)-1]); len(got) > 0 && !slices.Equal(got, want) {
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
