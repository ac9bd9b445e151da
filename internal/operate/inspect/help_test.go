package inspect

import (
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// openLog connects to an embedded broker of its own.
func openLog(t *testing.T, lanes int) *stream.Log {
	t.Helper()
	return logtest.Open(t, logtest.Broker(t), "test", lanes)
}

// writer writes records as producers and stages do.
type writer struct {
	t *testing.T
	p *stream.Publisher
}

func newWriter(t *testing.T, log *stream.Log) writer {
	w := writer{t, log.NewPublisher(stream.PublisherOptions{})}
	t.Cleanup(func() {
		if err := w.p.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return w
}

func (w writer) check(err error) {
	w.t.Helper()
	must.Do(w.t, err)
}

func (w writer) pairs(lane, n int) {
	w.t.Helper()
	for range n {
		w.check(w.p.PublishBytes(w.t.Context(), schemas.Pairs, lane, schemas.SchemaPair, []byte("pair")))
	}
}

func (w writer) seal(lane int, final bool) {
	w.t.Helper()
	w.check(w.p.Publish(w.t.Context(), schemas.Pairs, lane, &schemas.Seal{Final: final}))
}

// stage writes a record of a stage that had reached the position of its input.
func (w writer) stage(topic schemas.Topic, lane int, seq int64, rec schemas.Record, input schemas.Topic, at stream.Position) {
	w.t.Helper()
	mark := stream.Mark{Inputs: []stream.TopicPosition{{Topic: input, Position: at}}}
	w.check(w.p.PublishSeq(w.t.Context(), topic, lane, seq, mark, rec))
}

// aside sets records of the lane aside, read from a reader as stages do.
func (w writer) aside(log *stream.Log, stage string, lane int, reasons ...string) {
	w.t.Helper()
	w.check(w.p.Flush(w.t.Context()))
	i := 0
	for rec, err := range log.Records(w.t.Context(), schemas.Pairs, lane, stream.Position{}, -1) {
		w.check(err)
		if i == len(reasons) {
			break
		}
		if reasons[i] != "" {
			w.check(w.p.DeadLetter(w.t.Context(), stage, rec, reasons[i]))
		}
		i++
	}
}

func at(offset, seq int64) stream.Position { return stream.Position{Offset: offset, Seq: seq} }

// filler is a valid record that stands for any other: only its place counts.
var filler = &schemas.Seal{}

// refusal stands in the place of an embedding.
var refusal = &schemas.Refusal{
	ID: schemas.NewPairID(schemas.NewImageID([]byte("image")), "caption"), ImageID: schemas.NewImageID([]byte("image")), Reason: schemas.MaskUnusable,
}

// manifest is that of a group of two pairs, whose last embedding has the seq before end.
func manifest(lane int, group, end int64) *schemas.Group {
	return &schemas.Group{
		Group: schemas.GroupID{Lane: int32(lane), Seq: group}, EndSeq: end, Count: 2, Chunks: 1, Dim: 1, Clusters: 1, Model: "m",
		Closed: schemas.ClosedByCount, Modality: schemas.ModalityImage, Digest: make([]byte, 32),
	}
}

func chunk(lane int, group int64) *schemas.NeighborChunk {
	id := schemas.NewPairID(schemas.NewImageID([]byte("image")), "caption")
	return &schemas.NeighborChunk{
		Group: schemas.GroupID{Lane: int32(lane), Seq: group}, IDs: id[:], Cluster: schemas.Int32s{0}, ObjEnd: schemas.Int32s{0},
	}
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
