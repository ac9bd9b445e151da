package training

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/stream"
)

// lanePosition is how far the trainer is in one lane.
type lanePosition struct {
	Lane     int             `json:"lane"`
	Scored   stream.Position `json:"scored"`   // next record to read
	Features int64           `json:"features"` // seq of the next feature block
	Ended    bool            `json:"ended"`    // a final seal was read
}

// positions is what a checkpoint says about the log: from it training goes on as if it had never stopped.
type positions struct {
	Lanes []lanePosition `json:"lanes"`
	Turn  int            `json:"turn"` // index in Lanes of the first lane to be considered for the next step
}

// startOf is the position of a trainer that has read nothing.
func startOf(lanes []int) positions {
	var p positions
	for _, lane := range lanes {
		p.Lanes = append(p.Lanes, lanePosition{Lane: lane})
	}
	return p
}

// parsePositions reads what a checkpoint holds; it must be of the same lanes.
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
		return p, fmt.Errorf("the checkpoint was trained on lanes %v, this trainer owns %v (LANES, RANK, WORLD_SIZE)", found, lanes)
	}
	return p, nil
}

func (p positions) clone() positions {
	p.Lanes = append([]lanePosition(nil), p.Lanes...)
	return p
}

// ended reports whether every lane has.
func (p positions) ended() bool {
	return !slices.ContainsFunc(p.Lanes, func(l lanePosition) bool { return !l.Ended })
}
