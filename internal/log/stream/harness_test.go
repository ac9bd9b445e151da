package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// testConfig returns a configuration that points at a broker, or at several with commas between. It has a namespace
// of its own.
func testConfig(broker, namespace string, lanes int) Config {
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Namespace, cfg.Lanes = strings.Split(broker, ","), namespace, lanes
	cfg.Linger, cfg.FlushAfter = 0, time.Millisecond
	cfg.SessionTimeout = 2 * time.Second
	return cfg
}

func startBroker(t *testing.T, o broker.Options) *broker.Broker {
	t.Helper()
	b := must.Get(broker.Start(o))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}

func openLog(t *testing.T, cfg Config) *Log {
	t.Helper()
	opts := Options{}
	if os.Getenv("STREAM_TEST_LOG") != "" {
		opts.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	l := must.Get(Connect(t.Context(), cfg, opts))(t)
	t.Cleanup(l.Close)
	must.Do(t, l.EnsureTopics(t.Context()))
	return l
}

// put writes raw messages, in order.
func put(t *testing.T, l *Log, messages ...message) {
	t.Helper()
	p := l.NewPublisher(PublisherOptions{})
	for _, m := range messages {
		must.Do(t, p.enqueue(t.Context(), m))
	}
	must.Do(t, p.Close(t.Context()))
}

const testSchema = "pairstream.test/1"

// pair returns a message as an outside producer writes it.
func pair(lane int, value string) message {
	return message{Message: kafka.Message{Topic: schemas.Pairs, Lane: lane, Value: []byte(value), Headers: []kafka.Header{
		{Key: schemas.HeaderSchema, Value: []byte(testSchema)},
	}}}
}

// numbered returns a message as a stage writes it.
func numbered(topic schemas.Topic, lane int, seq int64, value string) message {
	return sequenced(topic, lane, seq, Mark{}, testSchema, []byte(value))
}

// stageRun is a stage that runs in the background.
type stageRun struct {
	cancel context.CancelFunc
	done   chan error
}

func start(l *Log, spec StageSpec) *stageRun {
	ctx, cancel := context.WithCancel(context.Background())
	r := &stageRun{cancel, make(chan error, 1)}
	go func() { r.done <- l.Run(ctx, spec) }()
	return r
}

// parked runs a stage of one lane until the lane is parked, and returns why.
func parked(t *testing.T, l *Log, spec StageSpec) string {
	t.Helper()
	spec.Counters = new(Counters)
	r := start(l, spec)
	await(t, "the lane is parked", func() bool { return len(spec.Counters.States()) > 0 })
	state := spec.Counters.States()[0]
	r.stop(t)
	return state
}

func (r *stageRun) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	must.Check(t, <-r.done)
}

// await polls until ok holds. The test's own deadline ends a wait that is in vain.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, limited := t.Deadline()
	for !ok() {
		if t.Failed() || limited && time.Until(deadline) < 5*time.Second { // the test's own end would say nothing
			t.Fatalf("giving up to wait until %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("waiting until %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitSeqs waits until every output lane has the records up to its last seq.
func awaitSeqs(t *testing.T, l *Log, want map[schemas.Topic]int64, lanes ...int) {
	t.Helper()
	for topic, seq := range want {
		for _, lane := range lanes {
			await(t, fmt.Sprintf("%s/%d has seq %d", topic, lane, seq), func() bool {
				got := must.Get(l.LastSeq(t.Context(), topic, lane))(t)
				return got >= seq
			})
		}
	}
}

// lines returns the values of a lane as a reader sees them.
func lines(t *testing.T, l *Log, topic schemas.Topic, lane int) []string {
	t.Helper()
	var values []string
	for rec, err := range l.Records(t.Context(), topic, lane, Position{}, -1) {
		must.Do(t, err)
		values = append(values, string(rec.Value))
	}
	return values
}

func digest(t *testing.T, l *Log, topic schemas.Topic, lane int) string {
	t.Helper()
	d := must.Get(l.Digest(t.Context(), topic, lane, Position{}, -1))(t)
	return fmt.Sprintf("%d records, %s", d.Records, d.Sum())
}

var errCrash = errors.New("injected crash")

// raw is a record of any bytes.
type raw struct {
	schema string
	value  []byte
}

func (r raw) Schema() string { return r.schema }

func (raw) Validate() error { return nil }

// EncodeMsgpack writes the bytes as they are.
func (r raw) EncodeMsgpack(e *msgpack.Encoder) error {
	_, err := e.Writer().Write(r.value)
	return err
}

// batcher is a 1:1 stage that works on batches, as the encoder does. Some records are poison at once. Others only
// turn out to be poison when their batch is worked on.
type batcher struct {
	size int
	held []Record
}

func (b *batcher) Input() schemas.Topic { return schemas.Pairs }

func (b *batcher) Process(ctx context.Context, rec Record, out Output) error {
	if strings.HasPrefix(string(rec.Value), "poison") {
		return Poison(errors.New("bad pair: it says so"))
	}
	if b.held = append(b.held, rec); len(b.held) < b.size {
		return nil
	}
	return b.Flush(ctx, out)
}

func (b *batcher) Flush(_ context.Context, out Output) error {
	for _, rec := range b.held {
		if strings.HasPrefix(string(rec.Value), "late poison") {
			if err := out.DeadLetter(rec, "bad image: it turned out so"); err != nil {
				return err
			}
			continue
		}
		if err := out.Emit(schemas.Embeddings, raw{testSchema, append([]byte("embedding of "), rec.Value...)}, out.After(rec, nil)); err != nil {
			return err
		}
	}
	b.held = b.held[:0]
	return nil
}

func batcherSpec() StageSpec {
	return StageSpec{
		Name: "batcher", Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
		New: func(int, []byte) (Stage, error) { return &batcher{size: 3}, nil },
	}
}

// grouper collects groups, as the indexer does. For each group it writes a chunk per member, and then a manifest to a
// second topic. Only the manifest lets a restart pass over a group.
type grouper struct {
	size, group int
	start       Mark
	members     []string
}

func (g *grouper) Input() schemas.Topic { return schemas.Embeddings }

func (g *grouper) Process(_ context.Context, rec Record, out Output) error {
	if len(g.members) == 0 {
		g.start = out.Before(rec, fmt.Append(nil, g.group))
	}
	g.members = append(g.members, string(rec.Value))
	if len(g.members) < g.size {
		return nil
	}
	for i, m := range g.members {
		if err := out.Emit(schemas.Neighbors, raw{testSchema, fmt.Appendf(nil, "group %d member %d: %s", g.group, i, m)}, g.start); err != nil {
			return err
		}
	}
	g.group++
	manifest := fmt.Appendf(nil, "group %d: %s", g.group-1, strings.Join(g.members, ", "))
	g.members = nil
	return out.Emit(schemas.Groups, raw{testSchema, manifest}, out.After(rec, fmt.Append(nil, g.group)))
}

func (g *grouper) Flush(context.Context, Output) error { return nil }

func grouperSpec() StageSpec {
	return StageSpec{
		Name: "grouper", Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
		New: func(_ int, state []byte) (Stage, error) {
			g := &grouper{size: 3}
			if state != nil {
				if _, err := fmt.Sscan(string(state), &g.group); err != nil {
					return nil, fmt.Errorf("reading state %q: %w", state, err)
				}
			}
			return g, nil
		},
	}
}

// joiner reads a record of one input, and then as many of the other as it says, and writes one record for each.
type joiner struct {
	start Mark
	head  string
	want  int
}

func (j *joiner) Input() schemas.Topic {
	if j.want == 0 {
		return schemas.Groups
	}
	return schemas.Features
}

func (j *joiner) Process(_ context.Context, rec Record, out Output) error {
	if rec.Schema == schemas.SchemaSeal {
		return nil
	}
	if rec.Topic == schemas.Groups {
		j.start = out.Before(rec, nil)
		j.head = string(rec.Value)
		_, err := fmt.Sscanf(j.head, "take %d", &j.want)
		return err
	}
	resume := j.start
	if j.want--; j.want == 0 {
		resume = out.After(rec, nil)
	}
	return out.Emit(schemas.Batches, raw{testSchema, fmt.Appendf(nil, "%s: %s", j.head, rec.Value)}, resume)
}

func (j *joiner) Flush(context.Context, Output) error { return nil }

func joinerSpec() StageSpec {
	return StageSpec{
		Name: "joiner", Inputs: []schemas.Topic{schemas.Groups, schemas.Features}, Outputs: []schemas.Topic{schemas.Batches},
		New: func(int, []byte) (Stage, error) { return new(joiner), nil },
	}
}

// chainer writes a record for each pair that holds the two records before it in short. A new owner reads these again.
type chainer struct {
	last  []string
	again int // records to be read again
}

func (c *chainer) Input() schemas.Topic {
	if c.again > 0 {
		return schemas.Embeddings
	}
	return schemas.Pairs
}

func (c *chainer) Process(_ context.Context, rec Record, out Output) error {
	if c.again > 0 {
		c.again--
		c.last = append(c.last, string(rec.Value))
		return nil
	}
	value := fmt.Sprintf("%s after %.12q", rec.Value, c.last)
	c.last = append(c.last, value)
	c.last = c.last[max(0, len(c.last)-2):]
	seq := out.Before(rec, nil).Seqs[0].Seq
	mark := out.After(rec, fmt.Append(nil, len(c.last))).Rereading(schemas.Embeddings, seq+1-int64(len(c.last)))
	return out.Emit(schemas.Embeddings, raw{testSchema, []byte(value)}, mark)
}

func (c *chainer) Flush(context.Context, Output) error { return nil }

func chainerSpec() StageSpec {
	return StageSpec{
		Name: "chainer", Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings}, Rereads: []schemas.Topic{schemas.Embeddings},
		New: func(_ int, state []byte) (Stage, error) {
			c := new(chainer)
			if state != nil {
				if _, err := fmt.Sscan(string(state), &c.again); err != nil {
					return nil, fmt.Errorf("reading state %q: %w", state, err)
				}
			}
			return c, nil
		},
	}
}
