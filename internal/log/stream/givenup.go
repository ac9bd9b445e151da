package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// Forgoer is a stage that can continue without records that will never come, because an operator has skipped their
// inputs.
type Forgoer interface {
	// Forgoes names the records that the stage waits for, and their makers with their inputs. It returns nil if the
	// stage cannot continue without them. The goroutine of Process calls it.
	Forgoes() (what fmt.Stringer, makers []Maker)
}

// Maker is a stage, and the topic that it makes its records from.
type Maker struct {
	Stage string
	Reads schemas.Topic
}

// forgone is the note that a lane continues without some records.
type forgone struct {
	What json.RawMessage `json:"what"`
	Why  string          `json:"why"`
	Time time.Time       `json:"time"`
}

func forgonePrefix(stage string, lane int) string { return fmt.Sprintf("forgone/%s/%d/", stage, lane) }

// Forgone calls each with the records that a lane of a stage continues without. They were noted, so that a new owner of
// the lane does the same.
func (l *Log) Forgone(ctx context.Context, stage string, lane int, each func(what []byte) error) error {
	return l.recall(ctx, forgonePrefix(stage, lane), func(_ string, value []byte) error {
		var f forgone
		if err := json.Unmarshal(value, &f); err != nil {
			return err
		}
		return each(f.What)
	})
}

// forgo checks whether the records that the lane waits for can still come. If two checks in a row say no, it notes that
// the lane continues without them, and returns an error that restarts the lane.
//
// A maker that was slow to commit its progress may still write such a record. It then belongs to a position that the
// lane has passed.
func (ln *lane) forgo(ctx context.Context, r *Reader) error {
	s, ok := ln.stage.(Forgoer)
	if !ok {
		return nil
	}
	what, makers := s.Forgoes()
	if what == nil {
		return nil
	}
	why, err := ln.log.whyNoMore(ctx, r.f.Topic(), ln.id, makers)
	unsure := ln.out.again.unsure()
	if err == nil && why == "" && unsure != nil { // an unwritten record has no results
		var through bool
		if through, err = ln.log.areThrough(ctx, makers, ln.id, nil); through {
			why = unsure.Error()
		}
	}
	switch {
	case err != nil:
		return err
	case why == "" || !ln.starved:
		ln.starved = why != ""
		return nil
	case unsure != nil:
		return unsure
	}
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("noting which records the lane continues without: %w", err)
	}
	note := forgone{What: raw, Why: why, Time: ln.log.clock().UTC()}
	if err := ln.log.remember(ctx, forgonePrefix(ln.spec.Name, ln.id)+what.String(), note); err != nil {
		return err
	}
	return Transient(fmt.Errorf("continuing without %s: they will never come, because %s", what, why))
}

// whyNoMore explains why no more records will come to a lane of a topic: an operator has skipped records there or in
// the makers' inputs, and the makers have processed the rest. It returns "" as long as records may come.
func (l *Log) whyNoMore(ctx context.Context, topic schemas.Topic, lane int, makers []Maker) (why string, err error) {
	skips, err := l.Skips(ctx)
	if err != nil {
		return "", err
	}
	skips = slices.DeleteFunc(skips, func(s Skip) bool {
		return s.Lane != lane || s.Topic != topic && !slices.ContainsFunc(makers, func(m Maker) bool { return m.Reads == s.Topic })
	})
	var said []string
	for _, s := range skips {
		if s.To.Seq > s.From.Seq {
			said = append(said, fmt.Sprintf("seqs %d to %d of %s were skipped (%s)", s.From.Seq, s.To.Seq-1, s.Topic, s.Reason))
		}
	}
	if len(said) == 0 {
		return "", nil
	}
	if through, err := l.areThrough(ctx, makers, lane, skips); !through {
		return "", err
	}
	return strings.Join(said, ", "), nil
}

// areThrough reports whether stages have processed all records of a lane, except skipped ones.
func (l *Log) areThrough(ctx context.Context, makers []Maker, lane int, skips []Skip) (bool, error) {
	for _, m := range makers {
		if through, err := l.isThrough(ctx, m, lane, skips); !through || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isThrough reports whether a stage has processed all records of a lane, except skipped ones.
func (l *Log) isThrough(ctx context.Context, m Maker, lane int, skips []Skip) (bool, error) {
	lags, err := l.Lag(ctx, m.Stage, m.Reads)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(lags, func(x kafka.LaneLag) bool { return x.Lane == lane })
	if at < 0 || lags[at].Committed < 0 {
		return false, nil
	}
	b, err := l.Bounds(ctx, m.Reads, lane)
	if err != nil {
		return false, err
	}
	_, left, err := l.LastIn(ctx, m.Reads, lane, max(lags[at].Committed, b.Start), b.End, func(r *Record) bool {
		return isSequenced(r) && !slices.ContainsFunc(skips, func(s Skip) bool {
			return s.Topic == m.Reads && (s.From.Seq <= r.Seq && r.Seq < s.To.Seq || declaredForeign([]Skip{s}, r.Offset))
		})
	})
	return err == nil && !left, err
}
