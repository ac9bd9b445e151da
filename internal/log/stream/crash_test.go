package stream

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// scenario is a stage, its input, and how its outputs end when all of it is processed.
type scenario struct {
	name  string
	spec  func() StageSpec
	input []message
	ends  map[schemas.Topic]int64
	dead  int

	more     []message // what may come after the input
	moreEnds map[schemas.Topic]int64
}

// extended returns the scenario with all of its input.
func (s scenario) extended() scenario {
	s.input, s.ends, s.more = slices.Concat(s.input, s.more), s.moreEnds, nil
	return s
}

func scenarios() []scenario {
	var pairs, embeddings, joined []message
	for i := range 8 {
		pairs = append(pairs, pair(0, fmt.Sprint("pair ", i)))
		embeddings = append(embeddings, numbered(schemas.Embeddings, 0, int64(i), fmt.Sprint("embedding ", i)))
	}
	pairs = append(pairs, pair(0, "poison"), pair(0, "pair 8"), pair(0, "late poison"), pair(0, "pair 9"))
	features := int64(0)
	for i, n := range []int{2, 1, 3} {
		joined = append(joined, numbered(schemas.Groups, 0, int64(i), fmt.Sprintf("take %d", n)))
		for range n {
			joined = append(joined, numbered(schemas.Features, 0, features, fmt.Sprint("feature ", features)))
			features++
		}
	}
	return []scenario{
		{
			"one to one, in batches", batcherSpec, pairs,
			map[schemas.Topic]int64{schemas.Embeddings: 9},
			2,
			[]message{pair(0, "pair 10"), pair(0, "pair 11")},
			map[schemas.Topic]int64{schemas.Embeddings: 11},
		},
		{
			"groups, two outputs", grouperSpec, embeddings,
			map[schemas.Topic]int64{schemas.Neighbors: 5, schemas.Groups: 1},
			0,
			[]message{numbered(schemas.Embeddings, 0, 8, "embedding 8")},
			map[schemas.Topic]int64{schemas.Neighbors: 8, schemas.Groups: 2},
		},
		{
			"two inputs", joinerSpec, joined,
			map[schemas.Topic]int64{schemas.Batches: 5},
			0,
			[]message{numbered(schemas.Groups, 0, 3, "take 1"), numbered(schemas.Features, 0, 6, "feature 6")},
			map[schemas.Topic]int64{schemas.Batches: 6},
		},
		{
			"reads its own output again", chainerSpec, pairs[:8],
			map[schemas.Topic]int64{schemas.Embeddings: 7},
			0,
			[]message{pair(0, "pair 10"), pair(0, "pair 11")},
			map[schemas.Topic]int64{schemas.Embeddings: 9},
		},
	}
}

// open makes a namespace with the scenario's input. Every record is a batch of its own, so that there is a boundary
// between any two.
func (s scenario) open(t *testing.T, broker, namespace string) *Log {
	cfg := testConfig(broker, namespace, 1)
	cfg.BatchBytes = 1
	l := openLog(t, cfg)
	put(t, l, s.input...)
	return l
}

func (s scenario) outcome(t *testing.T, l *Log) map[schemas.Topic]string {
	got := make(map[schemas.Topic]string)
	for topic := range s.ends {
		got[topic] = digest(t, l, topic, 0)
	}
	dead := 0
	for d, err := range l.DeadLetters(t.Context()) {
		must.Do(t, err)
		dead++
		got[schemas.DeadLetters] += fmt.Sprintf("%s/%d/%d %s: %s %q\n", d.Topic, d.Lane, d.Offset, d.Stage, d.Reason, d.Value)
	}
	if dead != s.dead {
		t.Errorf("%d dead letters, want %d", dead, s.dead)
	}
	return got
}

// undisturbed runs the scenario without a crash, counting the boundaries that it passes.
func (s scenario) undisturbed(t *testing.T, broker, namespace string) (want map[schemas.Topic]string, passed map[crashPoint]int) {
	l := s.open(t, broker, s.spec().Name+"-"+namespace)
	spec := s.spec()
	passed = make(map[crashPoint]int)
	counts := make(chan crashPoint, 1000)
	spec.hook = func(p crashPoint, _ int) error { counts <- p; return nil }
	r := start(l, spec)
	awaitSeqs(t, l, s.ends, 0)
	r.stop(t)
	close(counts)
	for p := range counts {
		passed[p]++
	}
	return s.outcome(t, l), passed
}

// crashAt makes the n-th passing of a boundary fail, for one run of a stage.
func crashAt(spec StageSpec, point crashPoint, n int) StageSpec {
	passed := 0
	ch := make(chan struct{}, 1) // the lane and its publisher both pass boundaries
	spec.hook = func(p crashPoint, _ int) error {
		if p != point {
			return nil
		}
		ch <- struct{}{}
		defer func() { <-ch }()
		if passed++; passed-1 == n {
			return errCrash
		}
		return nil
	}
	return spec
}

// TestCrashAtEveryBoundary crashes a stage at each boundary that an undisturbed run passes, and starts it again. It
// crashes the stage once more at the same kind of boundary, and lets the third run end.
func TestCrashAtEveryBoundary(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Options{})
			want, passed := s.undisturbed(t, b.Addr(), "undisturbed")
			var survived tally
			for _, point := range []crashPoint{afterRead, afterProcess, beforeWrite, afterWrite, beforeCommit} {
				if passed[point] == 0 {
					t.Errorf("the undisturbed run never passes %q", point)
				}
				for n := range passed[point] {
					t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
						survived.add(t, s.crash(t, b.Addr(), point, n, want), want)
					})
				}
			}
			if planned := 2 * survived.runs; survived.faults <= planned/2 || survived.faults > planned {
				t.Errorf("%d crashes in %d runs that crash once or twice", survived.faults, survived.runs)
			}
			survived.record(t, brokers{kind: "embedded"}, "crash at every boundary: "+s.name)
		})
	}
}

// tally counts what a scenario survived. Each run was compared once with an undisturbed one.
type tally struct{ runs, faults, records int }

func (c *tally) add(t *testing.T, faults int, compared map[schemas.Topic]string) {
	t.Helper()
	c.runs++
	c.faults += faults
	for topic, digest := range compared {
		if topic != schemas.DeadLetters {
			c.records += recordsOf(t, digest)
		}
	}
}

func (c *tally) record(t *testing.T, b brokers, scenario string) {
	t.Helper()
	b.record(t, figures.Figures{Scenario: scenario, Faults: c.faults, Records: c.records})
}

// crash returns how often the stage crashed. The second run may have less to do than its boundary is away; then it ends
// without a crash.
func (s scenario) crash(t *testing.T, broker string, point crashPoint, n int, want map[schemas.Topic]string) (crashes int) {
	namespace := fmt.Sprintf("%s-crash-%d-%d", s.spec().Name, n, map[crashPoint]int{afterRead: 0, afterProcess: 1, beforeWrite: 2, afterWrite: 3, beforeCommit: 4}[point])
	l := s.open(t, broker, namespace)
	for i, at := range []int{n, n / 2} {
		err := s.finish(t, l, start(l, crashAt(s.spec(), point, at)))
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if err == nil && i == 0 {
			t.Fatal("the run did not crash")
		}
		if err != nil {
			crashes++
		}
	}
	r := start(l, s.spec())
	awaitSeqs(t, l, s.ends, 0)
	r.stop(t)
	for topic, got := range s.outcome(t, l) {
		if got != want[topic] {
			t.Errorf("%s: %s\nundisturbed: %s", topic, got, want[topic])
		}
	}
	return crashes
}

// finish waits until the run crashes or has written all that is due. Then it stops the run.
func (s scenario) finish(t *testing.T, l *Log, r *stageRun) error {
	t.Helper()
	for topic, seq := range s.ends {
		for {
			select {
			case err := <-r.done:
				return err
			default:
			}
			if got, err := l.LastSeq(t.Context(), topic, 0); err != nil {
				t.Fatal(err)
			} else if got >= seq {
				break
			}
		}
	}
	r.cancel()
	return <-r.done
}
