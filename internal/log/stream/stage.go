package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// The kinds of failure that a stage can report. The package comment describes their consequences, and those of other
// errors.
var (
	// ErrPoison marks a record that can never be processed: it goes to dead-letters, and the stage continues.
	ErrPoison = errors.New("record cannot be processed")
	// ErrTransient marks a fault that may pass (a bucket that does not answer). The lane stops and restarts from its
	// last mark after a pause, without limit.
	ErrTransient = kafka.ErrTransient
	// ErrNotYet marks a record that the stage cannot take yet, because something outside the log is missing. The stage
	// has not changed.
	ErrNotYet = errors.New("not yet")
	// ErrGap means that a lane lost records; see [GapError].
	ErrGap = errors.New("records are missing")
)

// Poison marks err as [ErrPoison]: the record in hand goes to dead-letters, with err's text as the reason. The words
// before the first colon label a metric when they are one of the known classes.
func Poison(err error) error { return poison{err} }

type poison struct{ error }

func (p poison) Unwrap() []error { return []error{p.error, ErrPoison} }

// Transient wraps err so that the lane is tried again.
func Transient(err error) error { return kafka.Transient(err) }

// NotYet wraps err so that Process gets the same record again, soon. Meanwhile the lane reports err as the thing that
// it waits for.
func NotYet(err error) error { return notYet{err} }

type notYet struct{ error }

func (n notYet) Unwrap() []error { return []error{n.error, ErrNotYet} }

// GapError reports a seq that skips: records between Expected and Found are lost.
type GapError struct {
	Topic           schemas.Topic
	Lane            int
	Offset          int64
	Expected, Found int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("records are missing: topic %s, lane %d, offset %d: expected seq %d, found %d",
		e.Topic, e.Lane, e.Offset, e.Expected, e.Found)
}

// Is makes a GapError an [ErrGap].
func (e *GapError) Is(target error) bool { return target == ErrGap }

// Stage is the state machine of one lane. Its output is a pure function of the records that it asks for. One
// goroutine drives it. A stage that implements io.Closer is closed when its lane is given up.
type Stage interface {
	// Input names the topic to read next. So it decides the order in which several inputs are merged.
	Input() schemas.Topic
	// Process takes the next record of Input. An error that wraps ErrPoison sends the record to dead-letters.
	Process(ctx context.Context, rec Record, out Output) error
	// Flush emits the records held back for batching. It is called when no input is at hand, and before the lane is
	// given up. The records that a stage emits, and their order, must not depend on the moment of the call.
	Flush(ctx context.Context, out Output) error
}

// Output is a stage's access to its own lane. It may be used only during the call that got it, and by one goroutine at
// a time. Emit and DeadLetter return before the broker has acknowledged, and block when too many bytes are waiting.
type Output interface {
	// Emit writes rec as the next record of topic. resume is a point from which the stage produces every record that
	// follows this one, on all of its outputs. It may lie as far back as is convenient, never ahead. So of several
	// records made of the same input, only the last may carry After. The others carry a Before that was taken before
	// the first of them.
	Emit(topic schemas.Topic, rec schemas.Record, resume Mark) error
	// DeadLetter sets rec aside. A stage must call it before it emits anything whose resume lies after rec.
	DeadLetter(rec Record, reason string) error
	// Before returns the point at which rec is the next record to read, with the outputs emitted so far.
	Before(rec Record, state []byte) Mark
	// After returns the input position after rec. Its Seqs are nil, so they are those after the record that it is
	// emitted with.
	After(rec Record, state []byte) Mark
}

// Factory makes the stage of one lane as it is at a mark. state is the mark's State, nil at the start of the lane.
type Factory func(lane int, state []byte) (Stage, error)

// StageSpec describes a stage to Run.
type StageSpec struct {
	Name    string          // also names the consumer group
	Inputs  []schemas.Topic // the partitions of the first one share out the lanes
	Outputs []schemas.Topic
	// Rereads are outputs that the stage reads again when it resumes from a mark: records before the mark's Seqs. Marks
	// name the first of them (see [Mark.Rereading]).
	Rereads []schemas.Topic
	New     Factory
	// Counters, when set, is kept up to date for progress bars.
	Counters *Counters

	hook func(point crashPoint, lane int) error // tests inject crashes
}

// crashPoint names a boundary at which tests make a lane crash.
type crashPoint string

const (
	beforeReading crashPoint = "before reading"
	afterRead     crashPoint = "after read"
	afterProcess  crashPoint = "after process"
	beforeWrite   crashPoint = "before write"
	afterWrite    crashPoint = "after write"
	beforeCommit  crashPoint = "before commit"
)

func (s StageSpec) at(point crashPoint, lane int) error {
	if s.hook == nil {
		return nil
	}
	return s.hook(point, lane)
}

func (s StageSpec) validate() error {
	switch {
	case s.Name == "" || !kafka.IsTopicName(s.Name):
		return fmt.Errorf("stage name %q: want letters, digits, . _ -", s.Name)
	case len(s.Inputs) == 0 || len(s.Outputs) == 0 || s.New == nil:
		return fmt.Errorf("stage %s: want inputs, outputs and a factory", s.Name)
	}
	for _, t := range slices.Concat(s.Inputs, s.Outputs) {
		if !isLaneTopic(t) {
			return fmt.Errorf("stage %s: %q is no lane topic", s.Name, t)
		}
	}
	for _, t := range s.Outputs {
		if !Sequenced(t) {
			return fmt.Errorf("stage %s: %q has no seqs and cannot be written by a stage", s.Name, t)
		}
	}
	for _, t := range s.Rereads {
		if !slices.Contains(s.Outputs, t) {
			return fmt.Errorf("stage %s: %q is none of its outputs %v and cannot be read again", s.Name, t, s.Outputs)
		}
	}
	return nil
}

func isLaneTopic(t schemas.Topic) bool {
	return slices.ContainsFunc(schemas.Catalogue(), func(i schemas.TopicInfo) bool { return i.Topic == t && i.Lane })
}

// Sequenced reports whether the records of t carry seqs. The records of outside producers do not, and neither do
// those of topics without lanes.
func Sequenced(t schemas.Topic) bool { return t != schemas.Pairs && isLaneTopic(t) }

// Record is one message of a lane, in order and without repetitions.
type Record = kafka.Record

// Position is a place in one lane of a topic.
type Position = kafka.Position

// TopicPosition is a position in a stage's lane of one input topic.
type TopicPosition = kafka.TopicPosition
