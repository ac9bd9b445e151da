package service

import "fmt"

// LaneOrder says on which lane the next step is made.
type LaneOrder string

const (
	// Rotation takes one batch of each lane in strict turn, leaving out lanes that have ended. The order of steps is a
	// function of the lanes' content alone, and a slow lane holds up the others.
	Rotation LaneOrder = "rotation"
	// Arrival takes turns as well, and skips lanes whose next batch is not there yet. The order depends on when batches
	// arrive, so it is written down before a step is made.
	Arrival LaneOrder = "arrival"
)

func (o LaneOrder) valid() bool { return o == Rotation || o == Arrival }

// laneState says what can be taken from a lane.
type laneState int

const (
	waiting laneState = iota // its next batch has not arrived
	ready                    // it has
	ended                    // there will be none
)

// nobody stands for no lane.
const nobody = -1

// next returns the index of the lane that the next step is to be made on, ready or not, or nobody while any lane will do.
// written is the lane of that step if the order names one, else nobody. turn is the first lane to consider.
func (o LaneOrder) next(written, turn int, lanes []laneState) (int, error) {
	if written != nobody {
		if lanes[written] == ended {
			return nobody, errNoBatchLeft
		}
		return written, nil
	}
	for i := range lanes {
		i = (turn + i) % len(lanes)
		if lanes[i] == ready || lanes[i] == waiting && o != Arrival {
			return i, nil
		}
	}
	return nobody, nil
}

var errNoBatchLeft = fmt.Errorf("the lane has ended: %w", errOtherRun)

// order maps a step to the lane on which it was made.
type order map[int64]int

// turn is a line of the order.
type turn struct {
	step int64
	lane int
}

// add adds a turn that another source knows.
func (o order) add(t turn) error {
	if lane, ok := o[t.step]; ok && lane != t.lane {
		return fmt.Errorf("step %d was made on lane %d, and on lane %d: %w", t.step, lane, t.lane, errOtherRun)
	}
	o[t.step] = t.lane
	return nil
}

// merge adds turns and returns those that are new. It adds none that come after a contradiction.
func (o order) merge(turns []turn) (fresh []turn, err error) {
	for _, t := range turns {
		_, known := o[t.step]
		if err := o.add(t); err != nil {
			return nil, err
		}
		if !known {
			fresh = append(fresh, t)
		}
	}
	return fresh, nil
}

// covers reports whether the order, from a step on and without gaps, has every batch whose features are published. last
// has the seq of each lane's last block.
func (o order) covers(at positions, step int64, last map[int]int64) bool {
	steps := make(map[int]int64)
	for {
		lane, ok := o[step]
		if !ok {
			break
		}
		steps[lane]++
		step++
	}
	for _, l := range at.Lanes {
		if last[l.Lane]+1 > l.Features+steps[l.Lane] {
			return false
		}
	}
	return true
}
