package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/schemas"
)

const (
	namespace = "examples"
	lane      = 1
)

// publish starts an embedded broker, writes records to the lane of scored, and returns the flags that lead there.
func publish(t *testing.T, seqs []int64, records ...schemas.Record) []string {
	t.Helper()
	broker := logtest.Broker(t)
	log := logtest.Open(t, broker, namespace, 2)
	p := log.NewPublisher(stream.PublisherOptions{})
	for i, rec := range records {
		if err := p.PublishSeq(t.Context(), schemas.Scored, lane, seqs[i], stream.Mark{}, rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return []string{"-broker", broker, "-namespace", namespace, "-lane", "1"}
}

// scored returns a mini-batch of three pairs. Of the texts of others, the first image has one at 0.875 and one at 0.25,
// the second one at exactly 0.5.
func scored() *schemas.ScoredBatch {
	b := &schemas.ScoredBatch{
		Batch: schemas.Batch{
			Group: schemas.GroupID{Lane: lane, Seq: 4}, Epoch: 2, Batches: 1, Strategy: schemas.StrategyGRIT, M: 2,
			I2T: schemas.Int32s{1, 2, 0, -1, -1, -1}, T2I: schemas.Int32s{-1, -1, -1, -1, -1, -1},
		},
		Model:   "c0de00000000c0de",
		ProbI2T: schemas.Floats32{0.875, 0.25, 0.5, 0, 0, 0}, ProbT2I: make(schemas.Floats32, 6),
	}
	for i, text := range []string{"a dog runs", "the dog is running", "two cups"} {
		image := schemas.NewImageID([]byte{byte(i)})
		b.Samples = append(b.Samples, schemas.Sample{
			ID: schemas.NewPairID(image, text), ImageID: image, Text: text, Position: int32(i),
			Image: schemas.ImageRef{URI: "s3://crawl/0.tar", Offset: int64(512 * i), Size: 100},
		})
	}
	return b
}

const dog = `{"group":"1/4","epoch":2,"image":"s3://crawl/0.tar@0","caption":"a dog runs","text":"the dog is running","probability":0.875}` + "\n"

func TestRunPrintsConnectionsOnce(t *testing.T) {
	// The second record is there twice, as after a crash; a seal stands between and another at the end.
	args := publish(t, []int64{0, 1, 1, 2, 3}, scored(), &schemas.Seal{}, &schemas.Seal{}, scored(), &schemas.Seal{Final: true})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"as trained", args, dog + dog},
		{"a probability on the threshold is none", append(args, "-above", "0.875"), ""},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), tt.args, &out); err != nil || out.String() != tt.want {
			t.Errorf("%s: printed %q (%v), want %q", tt.name, out.String(), err, tt.want)
		}
	}
}

func TestRunStopsAtAGap(t *testing.T) {
	args := publish(t, []int64{0, 2}, &schemas.Seal{}, &schemas.Seal{Final: true})
	if err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "records 1 to 1 are missing") {
		t.Errorf("error is %v", err)
	}
}
