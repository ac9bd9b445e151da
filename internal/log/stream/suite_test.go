package stream

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// brokers is what a scenario runs against.
type brokers struct {
	kind    string // embedded or cluster, for figures
	brokers string
}

func (b brokers) record(t *testing.T, f figures.Figures) {
	t.Helper()
	f.Broker = b.kind
	figures.Record(t, f)
}

// suite lists the scenarios that hold whatever broker is there. On the embedded broker, each scenario has a broker of
// its own, in a process of its own. On Apache Kafka all share a cluster.
var suite = []struct {
	name string
	run  func(*testing.T, brokers)
}{
	{"processes are killed and paused", killed},
	{"owners come and go", redistributed},
	{"repetitions and junk on every lane topic", injected},
	{"poison is cheap", poisoned},
	{"a slow consumer", slowConsumer},
	{"clocks are wrong", wrongClocks},
}

func TestSuite(t *testing.T) {
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, brokers{"embedded", startBrokerProcess(t, "", "").addr})
		})
	}
}

// recordsOf returns the count in what digest returns.
func recordsOf(t *testing.T, digest string) int {
	t.Helper()
	count, _, _ := strings.Cut(digest, " ")
	n := must.Get(strconv.Atoi(count))(t)
	return n
}

// redistributed lets one owner of all lanes become four and one again, under load.
func redistributed(t *testing.T, b brokers) {
	const lanes, n, others = 6, 600, 3
	all := []int{0, 1, 2, 3, 4, 5}
	open := func(namespace string) *Log {
		cfg := testConfig(b.brokers, namespace, lanes)
		cfg.BatchBytes = 1000
		return openLog(t, cfg)
	}
	send := func(l *Log, from, to int) {
		var m []message
		for i := from; i < to; i++ {
			m = append(m, pair(i%lanes, fmt.Sprint("pair ", i)))
		}
		put(t, l, m...)
	}
	ends := func(n int) map[schemas.Topic]int64 {
		return map[schemas.Topic]int64{schemas.Embeddings: int64(n/lanes - 1)}
	}

	l := open("moving")
	var mu sync.Mutex
	made := make(map[int]int) // how often each lane was begun anew
	owner := func() (*stageRun, *Counters) {
		spec, c := batcherSpec(), new(Counters)
		inner := spec.New
		spec.Counters = c
		spec.New = func(lane int, state []byte) (Stage, error) {
			mu.Lock()
			defer mu.Unlock()
			made[lane]++
			return inner(lane, state)
		}
		return start(l, spec), c
	}
	first, _ := owner()
	send(l, 0, n)
	awaitSeqs(t, l, ends(n), all...)
	sent, rounds := n, soak.Choose(1, 10)
	for range rounds {
		var runs []*stageRun
		var counters []*Counters
		for range others {
			r, c := owner()
			runs, counters = append(runs, r), append(counters, c)
		}
		await(t, "all owners have work", func() bool {
			send(l, sent, sent+lanes)
			sent += lanes
			return !slices.ContainsFunc(counters, func(c *Counters) bool { return c.In.Load() == 0 })
		})
		for _, r := range runs {
			r.stop(t)
		}
		send(l, sent, sent+n)
		sent += n
		awaitSeqs(t, l, ends(sent), all...)
	}
	first.stop(t)

	quiet := open("moving-quiet")
	send(quiet, 0, sent)
	r := start(quiet, batcherSpec())
	awaitSeqs(t, quiet, ends(sent), all...)
	r.stop(t)
	for _, lane := range all {
		if got, want := digest(t, l, schemas.Embeddings, lane), digest(t, quiet, schemas.Embeddings, lane); got != want {
			t.Errorf("lane %d: %s\nwith one owner: %s", lane, got, want)
		}
	}
	if rounds == 1 && !slices.Contains(slices.Collect(maps.Values(made)), 1) {
		t.Errorf("lanes were begun anew %v times: want that the first owner keeps one", made)
	}
	b.record(t, figures.Figures{Scenario: fmt.Sprintf("1 -> %d -> 1 owners", others+1), Faults: rounds * 2 * others, Records: sent})
}

// poisoned measures the cost of setting aside one record in a hundred. It compares the medians of runs with poison
// and without it, in turns. The first run of each kind only warms up what it meets. Where nobody keeps the figures, few
// records say whether each poisoned one is set aside.
func poisoned(t *testing.T, b brokers) {
	n, turns := soak.Choose(100_000, 400_000), soak.Choose(3, 11)
	if os.Getenv(figures.File) == "" {
		n, turns = 20_000, 1
	}
	var took [2][]time.Duration
	bad, records := 0, 0
	for i := range turns + 1 {
		for k := range took {
			dirty := (i + k) % 2
			d, dead := timed(t, b, fmt.Sprintf("poison-%d-%d", i, dirty), n, 100*dirty)
			if bad, records = bad+dead, records+n-dead; i > 0 {
				took[dirty] = append(took[dirty], d)
			}
		}
	}
	rate := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(n) / took[len(took)/2].Seconds()
	}
	clean, dirty := rate(took[0]), rate(took[1])
	b.record(t, figures.Figures{
		Scenario: "1 % poison", Faults: bad, Records: records,
		Note: fmt.Sprintf("%.0f records/s without, %.0f with: costs %.1f %%", clean, dirty, 100*(1-dirty/clean)),
	})
}

// timed returns the time that a stage takes for n records, and how many of them were poison. One record in so many is
// poison, if poison is not 0. The time begins when a tenth is done, because connections are made by then.
//
// Every write is late, as it is with brokers that are far away. Then waits count, and not the machine's other work.
// The bytes in flight are so few that the stage waits for acks, as in a run without end.
func timed(t *testing.T, b brokers, namespace string, n, poison int) (took time.Duration, bad int) {
	cfg := testConfig(b.brokers, namespace, 1)
	cfg.Linger, cfg.MaxBytesInFlight = DefaultConfig().Linger, 32<<20
	l := openLog(t, cfg)
	p := l.NewPublisher(PublisherOptions{})
	for i := range n {
		m := pair(0, fmt.Sprint("pair ", i))
		if poison > 0 && i%poison == 0 {
			m = pair(0, fmt.Sprint("poison ", i))
			bad++
		}
		must.Do(t, p.enqueue(t.Context(), m))
	}
	must.Do(t, p.Close(t.Context()))
	spec := batcherSpec()
	spec.Counters = new(Counters)
	spec.hook = func(p crashPoint, _ int) error {
		if p == beforeWrite {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	r := start(l, spec)
	good := int64(n - bad)
	await(t, "a tenth of the records is done", func() bool { return spec.Counters.Out.Load() >= good/10 })
	began, first := time.Now(), spec.Counters.Out.Load()
	await(t, "all records are done", func() bool { return spec.Counters.Out.Load() >= good })
	took = time.Duration(float64(time.Since(began)) * float64(good) / float64(max(good-first, 1)))
	r.stop(t)
	if got := spec.Counters.DeadLetters.Load(); got != int64(bad) {
		t.Errorf("%d records were set aside, want %d", got, bad)
	}
	return took, bad
}

// wrongClocks lets writers and owners run with clocks that are a little more than an hour off. No record is refused
// or differs. (Apache Kafka refuses what is stamped more than an hour ahead, unless a topic has its brokers' own
// time.)
func wrongClocks(t *testing.T, b brokers) {
	compared := 0
	for _, s := range scenarios() {
		var want map[schemas.Topic]string
		for _, minutes := range []int{0, 61, -61} {
			l := openLog(t, testConfig(b.brokers, fmt.Sprintf("%s-clock-%d", s.spec().Name, minutes), 1))
			l.clock = func() time.Time { return time.Now().Add(time.Duration(minutes) * time.Minute) }
			put(t, l, s.input...)
			r := start(l, s.spec())
			awaitSeqs(t, l, s.ends, 0)
			r.stop(t)
			got := s.outcome(t, l)
			if want == nil {
				want = got
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: a clock that is off by %d minutes: %v\nright: %v", s.name, minutes, got, want)
			}
			for topic := range s.ends {
				compared += recordsOf(t, got[topic])
			}
		}
	}
	b.record(t, figures.Figures{Scenario: "clocks off by an hour", Faults: 2 * len(scenarios()), Records: compared})
}
