package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const testLanes = 2

func openLog(t *testing.T, broker, namespace string) *stream.Log {
	t.Helper()
	return logtest.Open(t, broker, namespace, testLanes, func(c *stream.Config) {
		c.FlushAfter, c.SessionTimeout = time.Millisecond, 2*time.Second
	})
}

// publish writes records to `pairs`: a text is a pair, nil a seal.
func publish(t *testing.T, log *stream.Log, lane int, records ...any) {
	t.Helper()
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, r := range records {
		switch r := r.(type) {
		case string:
			must.Do(t, p.PublishBytes(t.Context(), schemas.Pairs, lane, schemas.SchemaPair, []byte(r)))
		case *schemas.Seal:
			must.Do(t, p.Publish(t.Context(), schemas.Pairs, lane, r))
		default:
			t.Fatalf("a %T is no record of pairs", r)
		}
	}
	must.Do(t, p.Close(t.Context()))
}

var (
	final = &schemas.Seal{Final: true}
	pause = &schemas.Seal{Note: "pause"}
)

// pipeline is a toy of the five stages, with the topics, marks and seals of the real ones.
type pipeline struct {
	model   string
	spool   string
	refuse  string // pairs with this text are set aside
	owners  int    // owners of every stage
	seals   int    // stop when the trainer has seen so many in every lane; it sees the last one again when it goes on
	failing error
}

// value encodes a toy record.
func value(fields ...any) []byte {
	if len(fields)%2 != 0 {
		panic("fields come as name and value")
	}
	m := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.SetSortMapKeys(true)
	if err := e.Encode(m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// run works until the trainer has seen the seals, or ctx ends.
func (p pipeline) run(log *stream.Log) Runner {
	return func(ctx context.Context) error {
		if p.failing != nil {
			return p.failing
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var mu sync.Mutex
		seen := make(map[string]bool) // a lane that changes hands shows its seals again
		trained := func(rec stream.Record) {
			mu.Lock()
			defer mu.Unlock()
			if seen[fmt.Sprint(rec.Lane, rec.Seq)] = true; len(seen) == p.seals*testLanes {
				stop()
			}
		}
		all, ctx := errgroup.WithContext(ctx)
		for range max(p.owners, 1) {
			for _, spec := range p.specs(trained) {
				all.Go(func() error { return log.Run(ctx, spec) })
			}
		}
		return all.Wait()
	}
}

func (p pipeline) specs(trained func(stream.Record)) []stream.StageSpec {
	one := func(name string, in, out schemas.Topic, make func(rec stream.Record, emit func(schema string, value []byte)) error) stream.StageSpec {
		return stream.StageSpec{Name: name, Inputs: []schemas.Topic{in}, Outputs: []schemas.Topic{out}, New: func(int, []byte) (stream.Stage, error) {
			return &mapper{in, out, make}, nil
		}}
	}
	return []stream.StageSpec{
		one("encoder", schemas.Pairs, schemas.Embeddings, func(rec stream.Record, emit func(string, []byte)) error {
			if p.refuse != "" && strings.Contains(string(rec.Value), p.refuse) {
				return stream.Poison(errors.New("image missing: it says so"))
			}
			uri := fmt.Sprintf("file://%s/lane-%05d/%020d.tar", p.spool, rec.Lane, rec.Offset)
			emit(schemas.SchemaEmbedding, value("caption", rec.Value, "image", map[string]any{"uri": uri}, "model", p.model))
			return nil
		}),
		{
			Name: "indexer", Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
			New: func(int, []byte) (stream.Stage, error) { return &indexer{}, nil },
		},
		one("grouper", schemas.Groups, schemas.Batches, func(rec stream.Record, emit func(string, []byte)) error {
			for i := range 2 {
				emit(schemas.SchemaBatch, value("group", rec.Value, "sequence", i))
			}
			return nil
		}),
		one("discriminator", schemas.Batches, schemas.Scored, func(rec stream.Record, emit func(string, []byte)) error {
			emit(schemas.SchemaScoredBatch, value("batch", rec.Value, "model", "con-d"))
			return nil
		}),
		{
			Name: "trainer", Inputs: []schemas.Topic{schemas.Scored}, Outputs: []schemas.Topic{schemas.Features},
			New: func(int, []byte) (stream.Stage, error) {
				return &mapper{schemas.Scored, "", func(rec stream.Record, emit func(string, []byte)) error {
					if rec.Schema == schemas.SchemaSeal {
						trained(rec)
						return nil
					}
					emit(schemas.SchemaFeatureBlock, value("of", rec.Value))
					return nil
				}}, nil
			},
		},
	}
}

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

// mapper makes records of one topic from those of another. It passes seals on, unless it has no seals to pass on to.
type mapper struct {
	in, out schemas.Topic
	make    func(rec stream.Record, emit func(schema string, value []byte)) error
}

func (m *mapper) Input() schemas.Topic { return m.in }

func (m *mapper) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	to := m.out
	if to == "" {
		to = schemas.Features
	} else if rec.Schema == schemas.SchemaSeal {
		return out.Emit(to, raw{rec.Schema, rec.Value}, out.After(rec, nil))
	}
	var made [][2]string
	if err := m.make(rec, func(schema string, value []byte) { made = append(made, [2]string{schema, string(value)}) }); err != nil {
		return err
	}
	for i, r := range made {
		resume := out.Before(rec, nil)
		if i == len(made)-1 {
			resume = out.After(rec, nil)
		}
		if i > 0 && i < len(made)-1 {
			panic("the mark of a record in the middle is not sound")
		}
		if err := out.Emit(to, raw{r[0], []byte(r[1])}, resume); err != nil {
			return err
		}
	}
	return nil
}

func (m *mapper) Flush(context.Context, stream.Output) error { return nil }

// indexer makes a group of the embeddings up to a seal, or of three.
type indexer struct {
	members [][]byte
	start   stream.Mark
}

func (x *indexer) Input() schemas.Topic { return schemas.Embeddings }

func (x *indexer) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	seal := rec.Schema == schemas.SchemaSeal
	if len(x.members) == 0 {
		x.start = out.Before(rec, nil)
	}
	if !seal {
		v, err := msgvalue.Decode(rec.Value)
		if err != nil {
			return err
		}
		caption, _ := v.(msgvalue.Map).Get("caption")
		x.members = append(x.members, caption.([]byte))
	}
	if len(x.members) == 3 || seal && len(x.members) > 0 {
		if err := out.Emit(schemas.Neighbors, raw{schemas.SchemaNeighborChunk, value("ids", x.members)}, x.start); err != nil {
			return err
		}
		resume := out.After(rec, nil)
		if seal {
			resume = out.Before(rec, nil)
			resume.Seqs = nil
		}
		if err := out.Emit(schemas.Groups, raw{schemas.SchemaGroup, value("count", len(x.members), "end_seq", rec.Seq)}, resume); err != nil {
			return err
		}
		x.members = nil
	}
	if seal {
		return out.Emit(schemas.Groups, raw{rec.Schema, rec.Value}, out.After(rec, nil))
	}
	return nil
}

func (x *indexer) Flush(context.Context, stream.Output) error { return nil }

// ended reports whether every lane of the run has ended.
func (m *Manifest) ended() bool {
	return !slices.ContainsFunc(m.Pairs, func(r Range) bool { return !r.Ended })
}
