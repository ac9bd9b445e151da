package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// LaneOrder selects the lane of the next step.
type LaneOrder string

const (
	// Rotation takes one batch of each lane in strict turn, leaving out lanes that have ended. The order of steps is a
	// function of the lanes' content alone, and a slow lane holds up the others.
	Rotation LaneOrder = "rotation"
	// Arrival takes turns too, but skips lanes whose next batch has not arrived. The order depends on when batches
	// arrive, so it is written down before a step is made.
	Arrival LaneOrder = "arrival"
)

func (o LaneOrder) valid() bool { return o == Rotation || o == Arrival }

// laneState tells whether a lane has a batch to take.
type laneState int

const (
	waiting laneState = iota // its next batch has not arrived
	ready                    // its next batch has arrived
	ended                    // there will be no more
)

// noLane stands for no lane.
const noLane = -1

// next returns the index of the lane for the next step, ready or not, or noLane if any lane will do. written is the
// lane of that step in the written order, or noLane. turn is the first lane to consider.
func (o LaneOrder) next(written, turn int, lanes []laneState) (int, error) {
	if written != noLane {
		if lanes[written] == ended {
			return noLane, errNoBatchLeft
		}
		return written, nil
	}
	for i := range lanes {
		i = (turn + i) % len(lanes)
		if lanes[i] == ready || lanes[i] == waiting && o != Arrival {
			return i, nil
		}
	}
	return noLane, nil
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

// orderFileName is the file in CHECKPOINT_DIR with the order of lanes. After a first line that names the format and the
// namespace, each line is a step and its lane:
//
//	pairstream lane order 1, namespace "exp"
//	0 0
//	1 3
//
// A line counts once it ends. openOrderFile cuts off an incomplete last line, which a crash may leave.
const orderFileName = "lane-order"

const orderFormat = "pairstream lane order 1, namespace %q"

// errOtherRun is wrapped by errors about an order that belongs to another training.
var errOtherRun = errors.New("the order of lanes is that of another run; give this one a CHECKPOINT_DIR of its own")

// syncFile writes a file through to the disk. A test replaces it to record the order of calls.
var syncFile = (*os.File).Sync

// orderFile appends to the file and holds a lock on it. Without the lock, two trainers would each follow a part of the
// order.
type orderFile struct{ file *os.File }

// openOrderFile opens the file of a folder and returns its order from a step on. It makes the folder if need be.
func openOrderFile(dir, namespace string, from int64) (*orderFile, order, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("opening the order of lanes: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, orderFileName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the order of lanes: %w", err)
	}
	o, err := takeOver(f, dir, namespace, from)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening the order of lanes %s: %w", f.Name(), err), f.Close())
	}
	return &orderFile{f}, o, nil
}

func takeOver(f *os.File, dir, namespace string, from int64) (order, error) {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another trainer is writing it: want a CHECKPOINT_DIR for each")
		}
		return nil, fmt.Errorf("locking: %w", err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	o, whole, err := parseOrder(raw, namespace, from)
	if err != nil {
		return nil, err
	}
	if whole < len(raw) {
		if err := f.Truncate(int64(whole)); err != nil {
			return nil, err
		}
	}
	if whole == 0 {
		if _, err := fmt.Fprintf(f, orderFormat+"\n", namespace); err != nil {
			return nil, err
		}
	}
	return o, errors.Join(syncFile(f), atomicfile.SyncFolder(dir))
}

// readOrder reads the order like openOrderFile, for a caller that writes nothing. A missing file has no order.
func readOrder(dir, namespace string, from int64) (order, error) {
	path := filepath.Join(dir, orderFileName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return order{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the order of lanes: %w", err)
	}
	o, _, err := parseOrder(raw, namespace, from)
	if err != nil {
		return nil, fmt.Errorf("reading the order of lanes %s: %w", path, err)
	}
	return o, nil
}

// parseOrder returns the order from a step on, and how many bytes are whole lines.
func parseOrder(raw []byte, namespace string, from int64) (o order, whole int, err error) {
	o = make(order)
	whole = bytes.LastIndexByte(raw, '\n') + 1
	n := 0
	for line := range strings.Lines(string(raw[:whole])) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if n == 1 {
			if want := fmt.Sprintf(orderFormat, namespace); line != want {
				return nil, 0, fmt.Errorf("line 1 is %q, want %q: %w", line, want, errOtherRun)
			}
			continue
		}
		var t turn
		if _, err := fmt.Sscanf(line, "%d %d", &t.step, &t.lane); err != nil || line != t.String() || t.step < 0 || t.lane < 0 {
			return nil, 0, fmt.Errorf("line %d is %q, want a step and a lane; without the file the order is that of the features in the log", n, line)
		}
		if t.step < from {
			continue
		}
		if err := o.add(t); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return o, whole, nil
}

// String returns the turn as a line of the file.
func (t turn) String() string { return fmt.Sprintf("%d %d", t.step, t.lane) }

// add writes turns. They are on the disk when it returns.
func (f *orderFile) add(turns ...turn) error {
	if len(turns) == 0 {
		return nil
	}
	var lines []byte
	for _, t := range turns {
		lines = fmt.Appendln(lines, t)
	}
	if _, err := f.file.Write(lines); err != nil {
		return fmt.Errorf("writing the order of lanes: %w", err)
	}
	if err := syncFile(f.file); err != nil {
		return fmt.Errorf("writing the order of lanes: %w", err)
	}
	return nil
}

// Close releases the lock.
func (f *orderFile) Close() error { return f.file.Close() }

// ends maps lanes that ended without a last group to the step from which they count as ended. The decay of the learning
// rate waits for every lane. With [Rotation] that step follows from the order. With [Arrival] it depends on when the
// seal was read, which is chance. So it is noted in the log before the step is made, and repeated or replayed steps use
// the note.
type ends map[int]int64

const endsPrefix = "trainer/ended/"

// end is the note of a lane.
type end struct {
	Lane int   `json:"lane"`
	Step int64 `json:"step"`
}

// readEnds reads the notes of a log about ended lanes.
func readEnds(ctx context.Context, log *stream.Log) (ends, error) {
	known := make(ends)
	err := log.Notes(ctx, schemas.Control, endsPrefix, func(_ string, value []byte) error {
		var e end
		err := json.Unmarshal(value, &e)
		known[e.Lane] = e.Step
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finding the lanes that have ended: %w", err)
	}
	return known, nil
}

// noteEnds notes lanes, and returns when the log has the notes.
func noteEnds(ctx context.Context, log *stream.Log, lanes ends) (err error) {
	if len(lanes) == 0 {
		return nil
	}
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		if err := p.Note(ctx, schemas.Control, fmt.Sprint(endsPrefix, lane), end{lane, lanes[lane]}); err != nil {
			return err
		}
	}
	return nil
}

// countEnded counts lanes that have ended without a last group, for the next step. A step that was written down keeps
// the lanes counted then.
func (f *feed) countEnded(ctx context.Context) error {
	_, written := f.trail.lane(f.step)
	fresh := make(ends)
	for i := range f.at.Lanes {
		l := &f.at.Lanes[i]
		since, known := f.ends[l.Lane]
		if known = known && since <= f.step; !known && l.Ended && !l.Last && f.order == Arrival && !written {
			known, fresh[l.Lane] = true, f.step
		}
		if known && !l.Last {
			l.Last, l.Left = true, 0
		}
	}
	maps.Copy(f.ends, fresh)
	return noteEnds(ctx, f.log, fresh)
}
