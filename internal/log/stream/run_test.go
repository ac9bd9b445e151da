package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// faulty is a stage that does what a record tells it.
type faulty struct {
	copier
	act func(rec Record, out Output) error
}

func (f faulty) Process(ctx context.Context, rec Record, out Output) error {
	if err := f.act(rec, out); err != nil {
		return err
	}
	return f.copier.Process(ctx, rec, out)
}

func faultySpec(act func(rec Record, out Output) error) StageSpec {
	return StageSpec{
		Name: "faulty", Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
		New: func(int, []byte) (Stage, error) { return faulty{copier{schemas.Pairs, schemas.Embeddings}, act}, nil },
	}
}

func TestErrorsOfAStage(t *testing.T) {
	b := startBroker(t, broker.Options{})
	broken := errors.New("the bucket is on fire")
	for name, c := range map[string]struct {
		err   error
		fatal bool
		dead  bool
	}{
		"poison":           {Poison(broken), false, true},
		"transient":        {Transient(broken), false, false},
		"network":          {fmt.Errorf("reading image: %w", &net.OpError{Op: "read", Err: broken}), false, false},
		"cut short":        {fmt.Errorf("reading image: %w", io.ErrUnexpectedEOF), false, false},
		"anything else":    {broken, true, false},
		"poison, deep":     {fmt.Errorf("decoding: %w", Poison(broken)), false, true},
		"a malformed pair": {Poison(fmt.Errorf("decoding pair: %w", schemas.ErrMalformed)), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.NewReplacer(" ", "-", ",", "").Replace(name), 1))
			put(t, l, pair(0, "zero"), pair(0, "one"), pair(0, "two"))
			var failures atomic.Int32
			r := start(l, faultySpec(func(rec Record, _ Output) error {
				if string(rec.Value) == "one" && (failures.Add(1) <= 2 || c.dead || c.fatal) {
					return c.err
				}
				return nil
			}))
			if c.fatal {
				if err := <-r.done; !errors.Is(err, broken) || !strings.Contains(err.Error(), "stage faulty: lane 0: processing pairs, lane 0, offset 1: the bucket") {
					t.Errorf("got %v", err)
				}
				return
			}
			want := []string{"zero", "one", "two"}
			if c.dead {
				want = []string{"zero", "two"}
			}
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: int64(len(want) - 1)}, 0)
			r.stop(t)
			if got := lines(t, l, schemas.Embeddings, 0); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestEmitRefusesMarksThatLieAhead also covers a mark that no reader takes.
func TestEmitRefusesMarksThatLieAhead(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, act := range map[string]func(rec Record, out Output) error{
		"inputs not read": func(rec Record, out Output) error {
			m := out.After(rec, nil)
			m.Inputs[0].Offset++
			return emit(out, m)
		},
		"outputs not emitted": func(rec Record, out Output) error { m := out.Before(rec, nil); m.Seqs[0].Seq += 2; return emit(out, m) },
		"an input of another": func(rec Record, out Output) error {
			m := out.After(rec, nil)
			m.Inputs[0].Topic = schemas.Scored
			return emit(out, m)
		},
		"a state that no reader takes": func(rec Record, out Output) error {
			return emit(out, out.After(rec, make([]byte, kafka.MaxHeaderBytes)))
		},
		"an output of another": func(rec Record, out Output) error {
			return out.Emit(schemas.Scored, raw{testSchema, nil}, out.Before(rec, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1))
			put(t, l, pair(0, "zero"))
			spec := faultySpec(act)
			spec.Counters = new(Counters)
			r, ended := start(l, spec), false
			var err error
			await(t, "the mark is refused, or written", func() bool {
				select {
				case err = <-r.done:
					ended = true
				default:
				}
				return ended || spec.Counters.Out.Load() > 0
			})
			if !ended {
				r.stop(t)
			}
			if err == nil || !strings.Contains(err.Error(), "emitting to") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func emit(out Output, m Mark) error { return out.Emit(schemas.Embeddings, raw{testSchema, nil}, m) }

func TestGapInAnInputParksTheLane(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	put(t, l, numbered(schemas.Embeddings, 0, 0, "zero"), numbered(schemas.Embeddings, 0, 2, "two"))
	if got, want := parked(t, l, grouperSpec()), "topic embeddings, lane 0, offset 1: expected seq 1, found 2"; !strings.Contains(got, want) {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestForeignRecordsAreSetAside puts records without seqs between those of a stage.
func TestForeignRecordsAreSetAside(t *testing.T) {
	b := startBroker(t, broker.Options{})
	reg := prometheus.NewRegistry()
	l := must.Get(Connect(t.Context(), testConfig(b.Addr(), "", 1), Options{Registerer: reg}))(t)
	defer l.Close()
	must.Do(t, l.EnsureTopics(t.Context()))
	foreign := pair(0, "foreign bytes \xff\x00")
	foreign.Topic, foreign.Key = schemas.Embeddings, []byte("its key")
	foreign.Headers = append(foreign.Headers, kafka.Header{Key: "trace", Value: []byte("abc")})
	put(t, l, numbered(schemas.Embeddings, 0, 0, "a"), foreign, numbered(schemas.Embeddings, 0, 1, "b"), numbered(schemas.Embeddings, 0, 0, "a"),
		numbered(schemas.Embeddings, 0, 2, "c"))
	spec := grouperSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 0}, 0)
	r.stop(t)
	if got := lines(t, l, schemas.Groups, 0); got[0] != "group 0: a, b, c" {
		t.Errorf("got %q", got)
	}
	var dead []DeadLetter
	for d, err := range l.DeadLetters(t.Context()) {
		must.Do(t, err)
		dead = append(dead, d)
	}
	if len(dead) != 1 {
		t.Fatalf("got %d dead letters, want 1", len(dead))
	}
	d := dead[0]
	if d.Topic != schemas.Embeddings || d.Lane != 0 || d.Offset != 1 || d.Stage != "grouper" || !strings.HasPrefix(d.Reason, "no seq header") ||
		string(d.Value) != string(foreign.Value) || string(d.Key) != "its key" || d.Schema != testSchema || len(d.Headers) != 2 {
		t.Errorf("got %+v", d)
	}
	c := spec.Counters
	if in, out, dl, dup := c.In.Load(), c.Out.Load(), c.DeadLetters.Load(), c.Duplicates.Load(); in != 3 || out != 4 || dl != 1 || dup != 1 {
		t.Errorf("counted %d in, %d out, %d dead letters, %d duplicates; want 3, 4, 1, 1", in, out, dl, dup)
	}
	if c.BytesInFlight.Load() != 0 || c.Lag.Load() != 0 || c.LastProgress.Load() == 0 {
		t.Errorf("at the end: %d bytes in flight, lag %d, progress %d", c.BytesInFlight.Load(), c.Lag.Load(), c.LastProgress.Load())
	}
	checkMetrics(t, reg, map[string]float64{
		"pairstream_stream_records_in_total{stage=grouper,topic=embeddings}":           3,
		"pairstream_stream_records_out_total{stage=grouper,topic=neighbors}":           3,
		"pairstream_stream_records_out_total{stage=grouper,topic=dead-letters}":        1,
		"pairstream_stream_dead_letters_total{reason=no seq header,stage=grouper}":     1,
		"pairstream_stream_duplicates_dropped_total{stage=grouper,topic=embeddings}":   1,
		"pairstream_stream_bytes_in_flight{stage=grouper}":                             0,
		"pairstream_stream_duplicates_dropped_total{stage=publisher,topic=embeddings}": 0,
	})
}

func checkMetrics(t *testing.T, reg *prometheus.Registry, want map[string]float64) {
	t.Helper()
	families := must.Get(reg.Gather())(t)
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			got[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (there: %v), want %v", name, g, ok, v)
		}
	}
}

func TestTwoLogsShareARegisterer(t *testing.T) {
	b := startBroker(t, broker.Options{})
	reg := prometheus.NewRegistry()
	for range 2 {
		l := must.Get(Connect(t.Context(), testConfig(b.Addr(), "", 1), Options{Registerer: reg}))(t)
		l.Close()
	}
}

func TestRunRefuses(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	for name, c := range map[string]struct {
		change func(*StageSpec)
		want   string
	}{
		"no name":                 {func(s *StageSpec) { s.Name = "" }, "stage name"},
		"no inputs":               {func(s *StageSpec) { s.Inputs = nil }, "want inputs"},
		"no factory":              {func(s *StageSpec) { s.New = nil }, "a factory"},
		"an output without lanes": {func(s *StageSpec) { s.Outputs = []schemas.Topic{schemas.ProgressLog} }, "no lane topic"},
		"an output without seqs":  {func(s *StageSpec) { s.Outputs = []schemas.Topic{schemas.Pairs} }, "has no seqs"},
		"a factory that fails":    {func(s *StageSpec) { s.New = func(int, []byte) (Stage, error) { return nil, errCrash } }, "making stage"},
		"an input that is not there": {func(s *StageSpec) {
			s.New = func(int, []byte) (Stage, error) { return copier{schemas.Scored, schemas.Embeddings}, nil }
		}, `asks for "scored"`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := batcherSpec()
			c.change(&spec)
			if err := l.Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("topics that are missing", func(t *testing.T) {
		cfg := testConfig(b.Addr(), "elsewhere", 1)
		cfg.RequestTimeout = 200 * time.Millisecond // which also bounds the patience
		l := must.Get(Connect(t.Context(), cfg, Options{}))(t)
		defer l.Close()
		if err := l.Run(t.Context(), batcherSpec()); err == nil || !strings.Contains(err.Error(), "elsewhere.pairs does not exist (NAMESPACE=elsewhere)") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSessionTimeoutThatTheBrokersDoNotAllow(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.SessionTimeout = 20 * time.Minute
	if err := openLog(t, cfg).Run(t.Context(), batcherSpec()); err == nil || !strings.Contains(err.Error(), "STREAM_SESSION_TIMEOUT=20m0s") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
}

func TestEnsureTopics(t *testing.T) {
	b := startBroker(t, broker.Options{})
	openLog(t, testConfig(b.Addr(), "", 3))
	openLog(t, testConfig(b.Addr(), "", 3)) // again: nothing to do
	l := must.Get(Connect(t.Context(), testConfig(b.Addr(), "", 4), Options{}))(t)
	defer l.Close()
	err := l.EnsureTopics(t.Context())
	if err == nil || !strings.Contains(err.Error(), "topic pairs has 3 partitions: LANES=4 wants 4") || strings.Contains(err.Error(), "progress") {
		t.Errorf("got %v, want an error that names topic, count and setting", err)
	}
	cfg := testConfig(b.Addr(), "replicated", 1)
	cfg.Replication = 3
	if l, err = Connect(t.Context(), cfg, Options{}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.EnsureTopics(t.Context()); !errors.Is(err, kafkago.InvalidReplicationFactor) || !strings.Contains(err.Error(), "KAFKA_REPLICATION=3") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
}
