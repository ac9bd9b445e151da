package service

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// lanePosition says how far the trainer is in one lane.
type lanePosition struct {
	Lane     int              `json:"lane"`
	Scored   stream.Position  `json:"scored"`          // next record to read
	Features int64            `json:"features"`        // seq of the next feature block
	Ended    bool             `json:"ended"`           // a final seal was read
	Read     string           `json:"read,omitempty"`  // [recordID] of the last record before Scored; empty: none, or unknown
	Last     bool             `json:"last,omitempty"`  // the lane has come to its last group
	Epoch    *stream.Position `json:"epoch,omitempty"` // first batch of the epoch whose features are to be made anew; nil: none
	Again    int64            `json:"again,omitempty"` // batches whose features are due, from Epoch on; 0: the epoch goes on
	Left     int64            `json:"left,omitempty"`  // batches from here to the end of its last group
}

// moveTo moves the position behind a record. What an operator has skipped there is not read yet.
func (l *lanePosition) moveTo(rec stream.Record) { l.Scored, l.Read = rec.Next(), recordID(rec) }

// positions is what a checkpoint says about the log. From there training goes on as if it had never stopped.
type positions struct {
	Lanes []lanePosition `json:"lanes"`
	Turn  int            `json:"turn"`            // index in Lanes of the first lane to consider for the next step
	Log   *origin        `json:"log,omitempty"`   // nil: it was not recorded yet
	Decay int64          `json:"decay,omitempty"` // batches of all lanes over which the learning rate decays; 0: it does not yet
	// Judged is what evaluations have found up to here; nil: there was none. Only positions in checkpoints have it.
	Judged *judged `json:"eval,omitempty"`
}

// passOver counts lanes that ended without a last group: those from the turn up to lane i.
func (p *positions) passOver(i int) {
	for ; p.Turn != i; p.Turn = (p.Turn + 1) % len(p.Lanes) {
		p.Lanes[p.Turn].Last, p.Lanes[p.Turn].Left = true, 0
	}
}

// pass counts a batch of lane i and returns how far the decay of the learning rate has come with it. The decay begins
// when every lane has come to its last group, and takes all batches that are left then. The batches say so themselves, so
// a trainer that repeats a step decays alike.
func (p *positions) pass(i int, b *schemas.ScoredBatch) trainer.Decay {
	lane := &p.Lanes[i]
	lane.Last, lane.Left = b.Left > 0, max(0, b.Left-1)
	left := int64(0)
	for _, l := range p.Lanes {
		if !l.Last {
			return trainer.Decay{}
		}
		left += l.Left
	}
	if p.Decay == 0 {
		p.Decay = left + 1
	}
	return trainer.Decay{Batch: p.Decay - left, Of: p.Decay}
}

// startOf returns the positions of a trainer that has read nothing.
func startOf(lanes []int) positions {
	var p positions
	for _, lane := range lanes {
		p.Lanes = append(p.Lanes, lanePosition{Lane: lane})
	}
	return p
}

// parsePositions decodes the positions of a checkpoint, which must be of the same lanes.
func parsePositions(raw json.RawMessage, lanes []int) (positions, error) {
	var p positions
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("reading the checkpoint's positions: %w", err)
	}
	var found []int
	for _, l := range p.Lanes {
		found = append(found, l.Lane)
	}
	if fmt.Sprint(found) != fmt.Sprint(lanes) || p.Turn < 0 || p.Turn >= len(lanes) {
		return p, fmt.Errorf("the checkpoint was trained on lanes %v, this trainer has %v (LANES)", found, lanes)
	}
	return p, nil
}

func (p positions) clone() positions {
	p.Lanes = append([]lanePosition(nil), p.Lanes...)
	return p
}

// know puts the seqs of last features into last that retention has removed from the log.
func (p positions) know(last map[int]int64, logger *slog.Logger) {
	for _, l := range p.Lanes {
		if last[l.Lane] == gone {
			last[l.Lane] = l.Features - 1
			logger.Warn("retention has removed all features of a lane; going on from the checkpoint", "lane", l.Lane, "seq", l.Features)
		}
	}
}

// ended reports whether every lane has ended.
func (p positions) ended() bool {
	return !slices.ContainsFunc(p.Lanes, func(l lanePosition) bool { return !l.Ended })
}
