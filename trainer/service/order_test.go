package service

import (
	"errors"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestNextLane(t *testing.T) {
	const w, r, e = waiting, ready, ended
	for _, c := range []struct {
		name             string
		order            LaneOrder
		written, turn    int
		lanes            []laneState
		want             int // ready or not
		wantErr          error
		otherOrderAsWell bool // gives the same
	}{
		{name: "everything there", order: Rotation, written: noLane, turn: 1, lanes: []laneState{r, r, r}, want: 1, otherOrderAsWell: true},
		{name: "rotation waits", order: Rotation, written: noLane, turn: 1, lanes: []laneState{r, w, r}, want: 1},
		{name: "arrival does not", order: Arrival, written: noLane, turn: 1, lanes: []laneState{r, w, r}, want: 2},
		{name: "arrival comes round", order: Arrival, written: noLane, turn: 1, lanes: []laneState{r, w, w}, want: 0},
		{name: "an ended lane is left out", order: Rotation, written: noLane, turn: 1, lanes: []laneState{r, e, r}, want: 2, otherOrderAsWell: true},
		{name: "the last lane left", order: Rotation, written: noLane, turn: 1, lanes: []laneState{r, e, e}, want: 0, otherOrderAsWell: true},
		{name: "nothing there", order: Rotation, written: noLane, turn: 0, lanes: []laneState{w, w}, want: 0},
		{name: "nothing there, any will do", order: Arrival, written: noLane, turn: 0, lanes: []laneState{w, w}, want: noLane},
		{name: "one lane", order: Rotation, written: noLane, turn: 0, lanes: []laneState{r}, want: 0, otherOrderAsWell: true},
		{name: "all ended", order: Rotation, written: noLane, turn: 1, lanes: []laneState{e, e}, want: noLane, otherOrderAsWell: true},
		{name: "written down", order: Rotation, written: 2, turn: 0, lanes: []laneState{r, r, r}, want: 2, otherOrderAsWell: true},
		{name: "written down, not there", order: Rotation, written: 2, turn: 0, lanes: []laneState{r, r, w}, want: 2, otherOrderAsWell: true},
		{name: "written down, of an ended lane", order: Rotation, written: 2, turn: 0, lanes: []laneState{r, r, e}, want: noLane, wantErr: errOtherRun, otherOrderAsWell: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			orders := []LaneOrder{c.order}
			if c.otherOrderAsWell {
				orders = []LaneOrder{Rotation, Arrival}
			}
			for _, o := range orders {
				got, err := o.next(c.written, c.turn, c.lanes)
				if got != c.want || !errors.Is(err, c.wantErr) {
					t.Errorf("%s: got %d (%v), want %d (%v)", o, got, err, c.want, c.wantErr)
				}
			}
		})
	}
}

func TestOrderCovers(t *testing.T) {
	at := positions{Lanes: []lanePosition{{Lane: 2, Features: 10}, {Lane: 5, Features: 20}}}
	known := order{30: 2, 31: 5, 32: 2, 34: 5} // 33 is missing
	for _, c := range []struct {
		name string
		last map[int]int64
		want bool
	}{
		{"nothing is published", map[int]int64{2: -1, 5: -1}, true},
		{"only what was before", map[int]int64{2: 9, 5: 19}, true},
		{"all that is known", map[int]int64{2: 11, 5: 20}, true},
		{"one more", map[int]int64{2: 12, 5: 20}, false},
		{"beyond the gap", map[int]int64{2: 11, 5: 21}, false},
	} {
		if got := known.covers(at, 30, c.last); got != c.want {
			t.Errorf("%s: covered is %t, want %t", c.name, got, c.want)
		}
	}
}

func TestOrderRefusesContradiction(t *testing.T) {
	o := order{3: 1}
	must.Check(t, o.add(turn{3, 1}))
	if err := o.add(turn{3, 2}); !errors.Is(err, errOtherRun) {
		t.Errorf("step 3 on two lanes: error %v", err)
	}
}
