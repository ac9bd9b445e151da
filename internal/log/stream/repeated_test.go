package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestSkipOfWhatWasUsed skips a record that a stage has used for what is in its output. A new owner of the lane makes
// other records then. It says so, where it would leave the new ones out for those that have their seqs.
func TestSkipOfWhatWasUsed(t *testing.T) {
	for name, c := range map[string]struct {
		skipped int64 // seq in embeddings
		want    string
	}{
		// The stage makes groups of three. The third has two members when its owner stops.
		"in the open group":   {6, "neighbors, lane 0, seq 6: the stage now makes another record of its inputs than the log has, because seqs 6 to 6 of embeddings were skipped (broken)"},
		"in a group before":   {3, ""},
		"behind what is read": {8, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
			embed(t, l)
			spec := grouperSpec()
			spec.Counters = new(Counters)
			made := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 3}, 0)
			made.stop(t)
			l = withoutLastGroup(t, l)
			skip := Skip{Topic: schemas.Embeddings, From: Position{Offset: c.skipped, Seq: c.skipped}, To: Position{Offset: c.skipped + 1, Seq: c.skipped + 1}, Reason: "broken"}
			must.Do(t, l.Skip(t.Context(), skip))
			if c.want != "" {
				if state := parked(t, l, spec); !strings.Contains(state, c.want) {
					t.Errorf("the lane says %q, want %q", state, c.want)
				}
				return
			}
			again := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Neighbors: 8}, 0)
			again.stop(t)
			if got := lines(t, l, schemas.Neighbors, 0); !slices.Contains(got, "group 2 member 0: value 6") {
				t.Errorf("made %q", got)
			}
		})
	}
}

// embed gives a lane twelve embeddings.
func embed(t *testing.T, l *Log) {
	t.Helper()
	for seq := range int64(12) {
		put(t, l, numbered(schemas.Embeddings, 0, seq, fmt.Sprint("value ", seq)))
	}
}

// withoutLastGroup copies a log with two groups and two members of the third, as if its owner had died there: the third
// is made again.
func withoutLastGroup(t *testing.T, l *Log) *Log {
	t.Helper()
	cut := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	cut.parkedPause = 10 * time.Millisecond
	embed(t, cut)
	for _, topic := range []schemas.Topic{schemas.Neighbors, schemas.Groups} {
		for rec, err := range l.Records(t.Context(), topic, 0, Position{}, -1) {
			must.Do(t, err)
			if topic == schemas.Neighbors && rec.Seq < 8 || topic == schemas.Groups && rec.Seq < 2 {
				put(t, cut, message{Message: kafka.Message{Topic: topic, Value: rec.Value, Headers: rec.Headers}})
			}
		}
	}
	return cut
}

// TestSkipWhileALaneIsTakenUp has an operator skip a record just when a new owner has looked at the skips. What the
// owner reads and what it compares follow the same skips: else it would leave new records out for those that have their
// seqs, without a word.
func TestSkipWhileALaneIsTakenUp(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	embed(t, l)
	made := start(l, grouperSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 3}, 0)
	made.stop(t)
	l = withoutLastGroup(t, l)

	spec := grouperSpec()
	spec.hook = func(p crashPoint, _ int) error {
		if p != beforeReading {
			return nil
		}
		return l.Skip(t.Context(), Skip{Topic: schemas.Embeddings, From: Position{Offset: 6, Seq: 6}, To: Position{Offset: 7, Seq: 7}, Reason: "broken"})
	}
	again := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Neighbors: 8, schemas.Groups: 2}, 0)
	again.stop(t)
	var got []string
	for _, line := range lines(t, l, schemas.Neighbors, 0) {
		if strings.Contains(line, "group 2 ") {
			got = append(got, line)
		}
	}
	if want := []string{"group 2 member 0: value 6", "group 2 member 1: value 7", "group 2 member 2: value 8"}; !slices.Equal(got, want) {
		t.Errorf("the third group is %q, want %q", got, want)
	}
}
