package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// awaiter reads groups of two embeddings and writes a batch for each. Then it waits for the features of both, and
// writes their batches of a second epoch. Features are made of batches.
type awaiter struct {
	start   Mark
	members []string
	answers int
}

func (a *awaiter) Input() schemas.Topic {
	if len(a.members) < 2 {
		return schemas.Embeddings
	}
	return schemas.Features
}

func (a *awaiter) Waiting() string { return fmt.Sprint("features of ", a.members) }

func (a *awaiter) Forgoes() (fmt.Stringer, []Maker) {
	if len(a.members) < 2 {
		return nil, nil
	}
	return wish(a.Waiting()), []Maker{{"maker", schemas.Batches}}
}

func (a *awaiter) Process(_ context.Context, rec Record, out Output) error {
	if rec.Topic == schemas.Features {
		if a.answers++; a.answers < len(a.members) {
			return nil
		}
		err := a.emit(out, 1, out.After(rec, nil))
		*a = awaiter{}
		return err
	}
	if len(a.members) == 0 {
		a.start = out.Before(rec, nil)
	}
	if a.members = append(a.members, string(rec.Value)); len(a.members) < 2 {
		return nil
	}
	return a.emit(out, 0, a.start)
}

// emit writes the batches of an epoch. The last one carries the mark.
func (a *awaiter) emit(out Output, epoch int, last Mark) error {
	for i, m := range a.members {
		mark := a.start
		if i == len(a.members)-1 {
			mark = last
		}
		if err := out.Emit(schemas.Batches, raw{testSchema, fmt.Appendf(nil, "epoch %d of %s", epoch, m)}, mark); err != nil {
			return err
		}
	}
	return nil
}

func (a *awaiter) Flush(context.Context, Output) error { return nil }

// TestSkipOfWhatNobodyCanCompare skips embeddings behind the mark of a stage whose batches retention has removed. When
// the first group is skipped, the batches of the second one have the seqs of those that are gone: nobody would write
// them, and nobody make their features.
func TestSkipOfWhatNobodyCanCompare(t *testing.T) {
	const lost = "batches, lane 0, seq 1: the log has lost this record, and the stage may now make another one, because seqs 0 to 1 of embeddings were skipped (broken)"
	for name, c := range map[string]struct {
		skipped  int64 // the first of two seqs of embeddings
		features bool  // those of the first group are there
		left     bool  // the maker has not read all batches
		want     string
	}{
		"a group that was used":               {0, false, false, lost},
		"the same, and features are there":    {0, true, false, lost},
		"a later group, whose maker is at it": {2, false, true, "waits for features of [value 0 value 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
			l.parkedPause = 10 * time.Millisecond
			for seq := range int64(4) {
				put(t, l, numbered(schemas.Embeddings, 0, seq, fmt.Sprint("value ", seq)))
			}
			spec := StageSpec{
				Name: "answered", Inputs: []schemas.Topic{schemas.Embeddings, schemas.Features}, Outputs: []schemas.Topic{schemas.Batches},
				New: func(int, []byte) (Stage, error) { return new(awaiter), nil },
			}
			maker := StageSpec{
				Name: "maker", Inputs: []schemas.Topic{schemas.Batches}, Outputs: []schemas.Topic{schemas.Scored},
				New: func(int, []byte) (Stage, error) { return copier{schemas.Batches, schemas.Scored}, nil },
			}
			before := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Batches: 1}, 0)
			before.stop(t)
			if !c.left {
				made := start(l, maker)
				awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Scored: 1}, 0)
				made.stop(t)
			}
			deleteRecords(t, l, schemas.Batches, 2)
			must.Do(t, l.Skip(t.Context(), Skip{Topic: schemas.Embeddings, From: Position{Offset: c.skipped, Seq: c.skipped}, To: Position{Offset: c.skipped + 2, Seq: c.skipped + 2}, Reason: "broken"}))
			if c.features {
				put(t, l, numbered(schemas.Features, 0, 0, "f 0"), numbered(schemas.Features, 0, 1, "f 1"))
			}
			l.saidAfter = 10 * time.Millisecond
			spec.Counters = new(Counters)
			again := start(l, spec)
			await(t, fmt.Sprintf("the lane says %q", c.want), func() bool {
				states := strings.Join(spec.Counters.States(), "; ")
				if c.left && strings.Contains(states, "parked") {
					t.Fatalf("the lane says %q", states)
				}
				return strings.Contains(states, c.want)
			})
			again.stop(t)
		})
	}
}
