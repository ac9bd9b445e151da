package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// injected writes into every lane topic that a stage writes, between the stage's own records and while the next stage
// reads them. It writes repetitions in any order, a stretch written anew by an owner that was fenced, and what no
// stage wrote. Only the last is set aside. The output of the next stage is the same as without all this.
func injected(t *testing.T, b brokers) {
	const n = 400
	seed := soak.Seed(t, 5)
	records, faults := 0, 0
	for _, info := range schemas.Catalogue() {
		if !Sequenced(info.Topic) {
			continue
		}
		topic, out := info.Topic, schemas.Scored
		if topic == out {
			out = schemas.Features
		}
		clean, dirty, junk := disturbed(rand.New(rand.NewPCG(seed, uint64(len(topic)))), topic, n)
		var digests [2]string
		for i, m := range [][]message{clean, dirty} {
			l := openLog(t, testConfig(b.brokers, fmt.Sprintf("injected-%s-%d", topic, i), 1))
			r := start(l, StageSpec{
				Name: "copier", Inputs: []schemas.Topic{topic}, Outputs: []schemas.Topic{out},
				New: func(int, []byte) (Stage, error) { return copier{topic, out}, nil },
			})
			put(t, l, m...)
			awaitSeqs(t, l, map[schemas.Topic]int64{out: n - 1}, 0)
			r.stop(t)
			digests[i] = digest(t, l, out, 0)
			dead := 0
			for d, err := range l.DeadLetters(t.Context()) {
				must.Do(t, err)
				if d.Topic != topic || d.Stage != "copier" || !strings.Contains(d.Reason, "seq header") || !strings.HasPrefix(string(d.Value), "junk") {
					t.Errorf("%s: set aside %+v", topic, d)
				}
				dead++
			}
			if want := i * junk; dead != want {
				t.Errorf("%s: %d records set aside, want %d", topic, dead, want)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: %s\nundisturbed: %s", topic, digests[1], digests[0])
		}
		records += recordsOf(t, digests[1])
		faults += len(dirty) - len(clean)
	}
	b.record(t, figures.Figures{Scenario: "repetitions and junk on every lane topic", Faults: faults, Records: records})
}

// disturbed returns n records of a topic, and the same with others between them.
func disturbed(r *rand.Rand, topic schemas.Topic, n int) (clean, dirty []message, junk int) {
	record := func(seq int) message { return numbered(topic, 0, int64(seq), fmt.Sprint("value ", seq)) }
	for i := range n {
		clean = append(clean, record(i))
		dirty = append(dirty, record(i))
		switch r.IntN(20) {
		case 0: // the same again
			dirty = append(dirty, record(i))
		case 1: // earlier ones, in any order
			for range 5 {
				dirty = append(dirty, record(r.IntN(i+1)))
			}
		case 2: // a fenced owner goes on from where it was
			for j := max(0, i-r.IntN(30)); j <= i; j++ {
				dirty = append(dirty, record(j))
			}
		case 3:
			m := pair(0, "junk without a seq")
			m.Topic = topic
			dirty = append(dirty, m)
			junk++
		case 4:
			m := numbered(topic, 0, 0, "junk with a seq that is none \xff")
			m.Headers[1].Value = []byte([]string{"", "-1", "x", "01", "99999999999999999999"}[r.IntN(5)])
			dirty = append(dirty, m)
			junk++
		}
	}
	return clean, dirty, junk
}

const (
	slowBound   = 1 << 20
	slowValue   = 8 << 10
	slowBacklog = 4000 // records that are there when the slow consumer starts
)

// slowMain runs a stage that takes its time over each record. It prints the process's largest live heap.
func slowMain(brokers string, pause, lasts time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	cfg := testConfig(brokers, "slow", 2)
	cfg.MaxBytesInFlight = slowBound
	l, err := Connect(ctx, cfg, Options{})
	if err != nil {
		return err
	}
	var c Counters
	spec := faultySpec(func(Record, Output) error { time.Sleep(pause); return nil })
	spec.Counters = &c
	r := start(l, spec)
	heap, flight := uint64(0), int64(0)
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		heap, flight = max(heap, m.HeapAlloc), max(flight, c.BytesInFlight.Load())
	}
	r.cancel()
	fmt.Printf("%d %d %d\n", heap, flight, c.In.Load())
	return <-r.done
}

// slowConsumer lets a producer be ten times faster than the process that reads. The process's memory stays within the
// bound, however much is waiting.
func slowConsumer(t *testing.T, b brokers) {
	pause, lasts := soak.Choose(10*time.Millisecond, 100*time.Millisecond), soak.Choose(4*time.Second, 10*time.Minute)
	cfg := testConfig(b.brokers, "slow", 2)
	cfg.BatchBytes = 32 << 10 // a broker returns whole batches
	l := openLog(t, cfg)
	p := l.NewPublisher(PublisherOptions{})
	value := strings.Repeat("x", slowValue)
	sent := 0
	send := func() {
		must.Do(t, p.enqueue(t.Context(), pair(sent%2, value)))
		sent++
	}
	for range slowBacklog {
		send()
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("STREAM_TEST_SLOW=%s %v %v", b.brokers, pause, lasts))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(pause / 20) // there are two lanes
	defer tick.Stop()
	for over := false; !over; {
		select {
		case err := <-ended:
			if over = true; err != nil {
				t.Fatalf("%v: %s", err, said.String())
			}
		case <-tick.C:
			send()
		}
	}
	must.Do(t, p.Close(t.Context()))
	var heap, flight, read int64
	if _, err := fmt.Sscan(said.String(), &heap, &flight, &read); err != nil {
		t.Fatalf("%v: %q", err, said.String())
	}
	const base = 16 << 20 // what the process lives on: connections, codecs, this package's tests
	if limit := int64(slowBound * 3 / 2); flight > limit || heap > limit+base || read == 0 || int(read) > sent/2 {
		t.Errorf("%d of %d records read with %d bytes in flight and a heap of %d, want at most %d and %d", read, sent, flight, heap, limit, limit+base)
	}
	b.record(t, figures.Figures{
		Scenario: "slow consumer", Records: int(read),
		Note: fmt.Sprintf("bound %d KiB: %d KiB in flight, heap of %d KiB, %d KiB waiting", slowBound>>10, flight>>10, heap>>10, int64(sent-int(read))*slowValue>>10),
	})
}
