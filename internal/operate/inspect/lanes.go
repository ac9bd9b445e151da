package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// LaneState is a stage's report on a lane that is parked or waits.
type LaneState struct {
	Stage string `json:"stage"`
	Lane  int    `json:"lane"`
	State string `json:"state"`
}

// LaneStates returns the lanes that are parked or wait, for every stage.
func LaneStates(ctx context.Context, log *stream.Log) ([]LaneState, error) {
	var states []LaneState
	for _, stage := range stageTopics {
		lags, err := log.Lag(ctx, stage.name, stage.reads)
		if err != nil {
			return nil, fmt.Errorf("reading the parked lanes of the %s: %w", stage.name, err)
		}
		for _, l := range lags {
			if l.State != "" {
				states = append(states, LaneState{stage.name, l.Lane, l.State})
			}
		}
	}
	return states, nil
}

// PrintLanes writes the reports on lanes and the decisions of operators.
func PrintLanes(w io.Writer, states []LaneState, skips []stream.Skip) error {
	p := printer{w: w}
	p.states(states)
	if len(states) == 0 {
		p.line("every lane is at work")
	}
	for _, s := range skips {
		p.line("skipped on %s in %s, lane %d, from offset %d, seq %d to offset %d, seq %d: %s (%s)", s.Time.Format("2006-01-02 15:04:05 MST"),
			s.Topic, s.Lane, s.From.Offset, s.From.Seq, s.To.Offset, s.To.Seq, display.Printable(s.Reason), display.Printable(s.Found))
	}
	return p.err
}

func (p *printer) states(states []LaneState) {
	if len(states) == 0 {
		return
	}
	var rows [][]string
	for _, s := range states {
		rows = append(rows, []string{s.Stage, strconv.Itoa(s.Lane), display.Printable(s.State)})
	}
	p.table([]string{" stage", "lane", " says"}, rows)
}

// FindDamage reads the inputs of a stage's lane from its last mark on, and returns the damage that it finds.
func FindDamage(ctx context.Context, log *stream.Log, stage string, lane int) ([]stream.Skip, error) {
	inputs, err := positions(ctx, log, stage, lane)
	if err != nil {
		return nil, err
	}
	var damage []stream.Skip
	for _, in := range inputs {
		s, err := log.FindDamage(ctx, in.Topic, lane, in.Position)
		if err != nil {
			return nil, err
		}
		if s.Topic != "" {
			damage = append(damage, s)
		}
	}
	return damage, nil
}

// positions returns the positions of a stage's inputs at the mark of its last record in a lane, or where the lane is
// parked.
func positions(ctx context.Context, log *stream.Log, stage string, lane int) ([]stream.TopicPosition, error) {
	if lanes := log.Config().Lanes; lane < 0 || lane >= lanes {
		return nil, fmt.Errorf("lane %d: want one below LANES=%d", lane, lanes)
	}
	for _, s := range stageTopics {
		if s.name != stage {
			continue
		}
		last, found, err := log.LastRecord(ctx, s.writes[len(s.writes)-1], lane)
		if err != nil {
			return nil, err
		}
		if found {
			if mark, err := stream.MarkOf(last); len(mark.Inputs) > 0 || err != nil {
				return slices.DeleteFunc(mark.Inputs, func(p stream.TopicPosition) bool { return slices.Contains(s.writes, p.Topic) }), err
			}
		}
		at, _, err := log.Stopped(ctx, stage, s.reads, lane) // the trainer writes no marks
		inputs := []stream.TopicPosition{{Topic: s.reads, Position: at}}
		for _, topic := range s.also {
			at, found, aerr := log.Stopped(ctx, stage, topic, lane)
			err = errors.Join(err, aerr)
			if found || stage != trainer { // the trainer starts after its checkpoint; the others have written nothing and start at the beginning
				inputs = append(inputs, stream.TopicPosition{Topic: topic, Position: at})
			}
		}
		return inputs, err
	}
	return nil, fmt.Errorf("stage %q: want encoder, indexer, grouper, discriminator or trainer", stage)
}

// OneRecord returns the proposal to skip one record of a lane.
func OneRecord(ctx context.Context, log *stream.Log, topic schemas.Topic, lane int, offset int64) ([]stream.Skip, error) {
	s := stream.Skip{
		Topic: topic, Lane: lane, Found: fmt.Sprintf("the record at offset %d", offset),
		From: stream.Position{Offset: offset}, To: stream.Position{Offset: offset + 1},
	}
	if stream.Sequenced(topic) {
		seq, err := log.SeqAt(ctx, topic, lane, offset)
		if err != nil {
			return nil, err
		}
		s.From.Seq, s.To.Seq = seq, seq+1
	}
	return []stream.Skip{s}, nil
}
