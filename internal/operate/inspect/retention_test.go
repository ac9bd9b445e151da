package inspect

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// block is the features of a training step.
func block(step int64) *schemas.FeatureBlock {
	return &schemas.FeatureBlock{
		Positions: schemas.Int32s{0}, Dim: 1, V: schemas.NewFloat16s([]float32{1}), T: schemas.NewFloat16s([]float32{1}), Step: step,
	}
}

// TestRetention computes what is needed of a run in the middle of its work.
func TestRetention(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "test", 2, func(c *stream.Config) { c.Retention = "pairs=30m,batches=30m,scored=2h" })
	w := run(t, log)
	for seq := range int64(4) { // the first record of run is no block
		w.check(w.p.PublishSeq(t.Context(), schemas.Features, 0, 1+seq, stream.Mark{}, block(10*(1+seq))))
	}
	for _, step := range []int64{5, 15, 15, 25} {
		w.check(w.p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressCheckpoint, Step: step, Checkpoint: "c"}))
	}
	w.check(w.p.Note(t.Context(), schemas.Sources, "file:///b.tar", map[string]any{"ends": []int64{8, 0}}))
	w.check(w.p.Note(t.Context(), schemas.Sources, "file:///a.tar", map[string]any{"ends": []int64{3, 2}}))
	w.check(w.p.Note(t.Context(), schemas.Sources, "file:///c.tar", map[string]any{"done": true}))
	w.check(w.p.Flush(t.Context()))
	r := must.Get(CollectRetention(t.Context(), log, time.Now().Add(time.Hour)))(t)
	var got []string
	for _, n := range r.Lanes {
		got = append(got, fmt.Sprintf("%s/%d: %d..%d from %d, %s", n.Topic, n.Lane, n.Start, n.End, n.First, n.By))
		if (n.Free > 0) != (n.Bytes > 0) || (n.End > n.First) != (n.Needed > 0 && n.Since != nil) || n.TooLate {
			t.Errorf("%+v", n)
		}
	}
	want := []string{
		"pairs/0: 0..11 from 3, producers", "pairs/1: 0..3 from 0, encoder",
		"embeddings/0: 0..8 from 0, grouper", "embeddings/1: 0..0 from 0, indexer",
		"neighbors/0: 0..2 from 0, grouper", "neighbors/1: 0..0 from 0, grouper",
		"groups/0: 0..2 from 1, indexer", "groups/1: 0..0 from 0, grouper",
		"batches/0: 0..6 from 5, grouper", "batches/1: 0..0 from 0, discriminator",
		"scored/0: 0..5 from 1, trainer", "scored/1: 0..0 from 0, trainer",
		"features/0: 0..5 from 0, grouper", "features/1: 0..0 from 0, grouper",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var problems []string
	for _, p := range r.Problems {
		problems = append(problems, strings.Join(strings.Fields(p)[:5], " "))
	}
	if want := []string{"topic test.pairs, lane 0: retention.ms=1800000", "topic test.pairs, lane 1: retention.ms=1800000", "topic test.batches, lane 0: retention.ms=1800000"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "file:///a.tar") || !strings.Contains(out.String(), "of step 15") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestRetentionOfWhatIsReadAgain marks a lane of the grouper whose owner would read its own batches from seq 2 on. A
// log that begins with repetitions has them. A log that begins behind them has lost what is needed.
func TestRetentionOfWhatIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		repeated int64 // first seq that the log holds twice
		deleted  int64 // offset before which retention has deleted
		first    int64
		tooLate  bool
	}{
		"all is there": {5, 0, 2, false},
		"in time":      {0, 6, 6, false},
		"too late":     {5, 3, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			broker := logtest.Broker(t)
			log := logtest.Open(t, broker, "test", 1)
			w := newWriter(t, log)
			all := slices.Concat(seqs(0, 5), seqs(test.repeated, 5))
			for _, seq := range all {
				mark := stream.Mark{Inputs: []stream.TopicPosition{{Topic: schemas.Groups, Position: at(0, 0)}}}.Rereading(schemas.Batches, 2)
				w.check(w.p.PublishSeq(t.Context(), schemas.Batches, 0, seq, mark, filler))
			}
			w.stage(schemas.Scored, 0, 0, filler, schemas.Batches, at(int64(len(all)), 6))
			w.check(w.p.Flush(t.Context()))
			w.check(kafka.DeleteRecords(t.Context(), []string{broker}, schemas.Batches.Name("test"), 0, test.deleted))
			r := must.Get(CollectRetention(t.Context(), log, time.Now()))(t)
			for _, n := range r.Lanes {
				if n.Topic == schemas.Batches && (n.First != test.first || n.By != "grouper" || n.TooLate != test.tooLate) {
					t.Errorf("batches are needed from %d by %s, too late %t; want from %d, %t", n.First, n.By, n.TooLate, test.first, test.tooLate)
				}
			}
		})
	}
}

// seqs returns the numbers from one to another.
func seqs(from, to int64) (out []int64) {
	for ; from <= to; from++ {
		out = append(out, from)
	}
	return out
}
