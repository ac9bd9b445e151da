package stream

import (
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/otlptest"
	"github.com/pairstream/pairstream/schemas"
)

// passOn is a stage that refuses each pair.
type passOn struct{}

func (passOn) Input() schemas.Topic { return schemas.Pairs }

func (passOn) Process(_ context.Context, rec Record, out Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return err
	}
	p := value.(*schemas.Pair)
	return out.Emit(schemas.Embeddings, &schemas.Refusal{ID: p.ID, ImageID: p.ImageID, Reason: "fetch"}, out.After(rec, nil))
}

func (passOn) Flush(context.Context, Output) error { return nil }

// TestTracesOfAnyProducer: whatever a producer's header says, each parent of a span is there, the spans have kinds and
// the attributes of their messages, and a lane's can be told from another's.
func TestTracesOfAnyProducer(t *testing.T) {
	const span = "b7ad6b7169203331" // of a program that sends its spans elsewhere
	id := func(i int) schemas.PairID { return schemas.NewPairID(schemas.NewImageID([]byte{byte(i)}), "a dog") }
	for name, c := range map[string]struct {
		header string // of a pair, given its id; empty: none
		traced bool   // the producer is pairstream's, with traces
		first  string // span of each pair's trace
		parent string // of it
		link   bool   // it links to the other trace
	}{
		"a producer with traces":                  {traced: true, first: "publish"},
		"a producer without":                      {first: "encoder wait"},
		"a program with traces of its own":        {header: "00-0af7651916cd43dd8448eb211c80319c-" + span + "-01", first: "encoder wait", link: true},
		"a program that traces by the pairs' ids": {header: "00-%s-" + span + "-01", first: "encoder wait", parent: span},
		"a program that does not sample":          {header: "00-%s-" + span + "-00", first: "encoder wait"},
		"a header of any bytes":                   {header: "\xff\x00", first: "encoder wait"},
	} {
		t.Run(name, func(t *testing.T) {
			r := otlptest.New(t)
			otlp.Use()
			t.Cleanup(func() { tracing.UseExporter(nil) })
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
			cfg := testConfig(startBroker(t, broker.Options{}).Addr(), "traced", 2)
			if c.traced {
				cfg.TraceEndpoint, cfg.TraceRatio = r.URL, 1
			}
			producer := openLog(t, cfg)
			p := producer.NewPublisher(PublisherOptions{Name: "producer"})
			for i := range 4 {
				pair := &schemas.Pair{ID: id(i), ImageID: schemas.NewImageID([]byte{byte(i)}), Inline: []byte{byte(i)}, Caption: "a dog"}
				m := unnumbered(schemas.Pairs, i%2, schemas.SchemaPair, must.Get(schemas.Marshal(pair))(t))
				if c.header != "" {
					header := c.header
					if len(header) < 55 && header[0] == '0' {
						header = fmt.Sprintf(header, id(i))
					}
					m.Headers = append(m.Headers, kafka.Header{Key: tracing.Header, Value: []byte(header)})
				}
				must.Do(t, p.enqueue(t.Context(), p.traceBytes(m, schemas.SchemaPair)))
			}
			must.Do(t, p.Close(t.Context()))
			producer.Close()

			cfg.TraceEndpoint, cfg.TraceRatio = r.URL, 1
			log := openLog(t, cfg)
			run := start(log, StageSpec{
				Name: "encoder", Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
				New: func(int, []byte) (Stage, error) { return passOn{}, nil },
			})
			awaitSeqs(t, log, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0, 1)
			run.stop(t)
			log.Close()
			checkTraces(t, r.Spans(), c.first, c.parent, c.link)
		})
	}
}

// checkTraces checks the spans of four pairs, two in each lane.
func checkTraces(t *testing.T, spans []otlptest.Span, first, parent string, link bool) {
	t.Helper()
	for _, s := range otlptest.Orphans(spans) {
		if s.Name != first || s.Parent != parent {
			t.Errorf("%s has the parent %s, which is not there", s.Name, s.Parent)
		}
	}
	kinds := map[string]string{"publish": "PRODUCER", "encoder wait": "CONSUMER", "encoder work": "INTERNAL", "encoder publish": "PRODUCER"}
	lanes, firsts := map[string]int{}, 0
	for _, s := range spans {
		lanes[s.Facts["pairstream.lane"]]++
		if s.Kind != kinds[s.Name] || s.Facts["pairstream.pair"] != s.Trace {
			t.Errorf("%s is of kind %s and pair %s, want %q and %s", s.Name, s.Kind, s.Facts["pairstream.pair"], kinds[s.Name], s.Trace)
		}
		if want := "pairstream-encoder"; s.Service != want && s.Name != "publish" {
			t.Errorf("%s is of service %q, want %s", s.Name, s.Service, want)
		}
		if s.Kind != "INTERNAL" {
			checkMessage(t, s)
		}
		if s.Parent != parent || s.Name != first {
			continue
		}
		if firsts++; link != (len(s.Links) == 1) {
			t.Errorf("the first span links to %v", s.Links)
		}
	}
	want := 6
	if first == "publish" {
		want = 8
	}
	if firsts != 4 || lanes["0"] != want || lanes["1"] != want || len(lanes) != 2 {
		t.Errorf("%d traces begin with %q, and %v spans are in each lane, want 4, and %d in each of two", firsts, first, lanes, want)
	}
}

func checkMessage(t *testing.T, s otlptest.Span) {
	t.Helper()
	topic, operation := "traced.pairs", "receive"
	if s.Kind == "PRODUCER" {
		operation = "send"
	}
	if s.Name == "encoder publish" {
		topic = "traced.embeddings"
	}
	offset := s.Facts["messaging.kafka.offset"]
	for fact, want := range map[string]string{
		"messaging.system": "kafka", "messaging.destination.name": topic, "messaging.operation.type": operation, "messaging.destination.partition.id": s.Facts["pairstream.lane"],
	} {
		if s.Facts[fact] != want {
			t.Errorf("%s has %s %q, want %q", s.Name, fact, s.Facts[fact], want)
		}
	}
	if offset != "0" && offset != "1" {
		t.Errorf("%s has offset %q, want 0 or 1", s.Name, offset)
	}
}
