package inspect

import (
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Status is the state of a run at one moment.
type Status struct {
	Namespace   string      `json:"namespace"`
	Time        time.Time   `json:"time"`
	Stages      []Stage     `json:"stages"`
	Lanes       []Lane      `json:"lanes"`
	Topics      []Topic     `json:"topics"`
	Waiting     Waiting     `json:"batches_waiting"`
	Account     Account     `json:"account"`
	DeadLetters []DeadCount `json:"dead_letters"`
	Training    *Training   `json:"training,omitempty"`
}

// Stage is the progress of one stage in all lanes.
type Stage struct {
	Name         string        `json:"name"`
	Reads        schemas.Topic `json:"reads"`
	Lag          int64         `json:"lag"`
	WorstLane    int           `json:"worst_lane"` // lane with the largest lag; -1: no lane has any
	LastProgress *time.Time    `json:"last_progress,omitempty"`
}

// Lane is the progress of all stages in one lane.
type Lane struct {
	Lane  int              `json:"lane"`
	Pairs int64            `json:"pairs"` // without a final seal
	Lag   map[string]int64 `json:"lag"`   // by stage
	Group OpenGroup        `json:"open_group"`
	State State            `json:"state"`
	Says  []LaneState      `json:"says,omitempty"` // stages that have parked the lane or wait in it

	Connections    *Connections `json:"connections,omitempty"`     // by the guard of connections; nil: there is none
	ConnectionsOff string       `json:"connections_off,omitempty"` // why the discriminator has switched connections off in the lane
}

// Connections is the guard's estimate of the precision of connections in a lane.
type Connections struct {
	State     string  `json:"state"` // on, off, or measuring
	Precision float64 `json:"precision"`
	Low       float64 `json:"low"` // lower end of its interval
	High      float64 `json:"high"`
	Base      float64 `json:"base_rate"`
	Above     float64 `json:"above"`  // threshold
	Judged    int32   `json:"judged"` // connections that have been judged by people
	Says      string  `json:"says"`   // all of this in a sentence
}

// connections returns the estimate of a check, or nil: checks of older discriminators have none.
func connections(c *schemas.Check) *Connections {
	if c == nil || c.Precision == nil {
		return nil
	}
	p, state := c.Precision, "on"
	switch {
	case c.Open:
		state = "measuring"
	case c.Off():
		state = "off"
	}
	return &Connections{State: state, Precision: p.Value, Low: p.Low, High: p.High, Base: p.Base, Above: p.Above, Judged: p.Judged, Says: c.String()}
}

// State tells whether a lane has ended.
type State string

// The states of a lane.
const (
	StateOpen  State = "open"  // more pairs may come
	StateEnded State = "ended" // it has a final seal, and some stage has not reached it
	StateDone  State = "done"  // every stage has reached the final seal
)

// OpenGroup is the group that a lane is filling.
type OpenGroup struct {
	Number int64 `json:"number"` // groups that were closed before it
	Pairs  int64 `json:"pairs"`  // at most Size; further pairs belong to later groups
	Size   int64 `json:"size"`   // pairs at which it closes
}

// Waiting counts the batches that have not been used yet.
type Waiting struct {
	Scoring  int64 `json:"scoring"`
	Training int64 `json:"training"`
}

// Topic counts the records of one topic.
type Topic struct {
	Topic    schemas.Topic `json:"topic"`
	Records  int64         `json:"records"`  // without repetitions
	Repeated int64         `json:"repeated"` // repetitions in the log, foreign records and control records
	Last     *time.Time    `json:"last,omitempty"`
}

// DeadCount counts the dead letters of a stage with the same reason.
type DeadCount struct {
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// Training is the last report on the progress topic.
type Training struct {
	Kind       string             `json:"kind"`
	Step       int64              `json:"step"`
	Values     map[string]float64 `json:"values,omitempty"`
	Checkpoint string             `json:"checkpoint,omitempty"`
	Time       time.Time          `json:"time"`
}

// stageTopics lists the stages with the topic that each follows, other topics that it reads, and those that it writes.
var stageTopics = []struct {
	name   string
	reads  schemas.Topic
	also   []schemas.Topic
	writes []schemas.Topic
}{
	{"encoder", schemas.Pairs, nil, []schemas.Topic{schemas.Embeddings}},
	{"indexer", schemas.Embeddings, nil, []schemas.Topic{schemas.Neighbors, schemas.Groups}},
	{"grouper", schemas.Groups, []schemas.Topic{schemas.Neighbors, schemas.Embeddings, schemas.Features}, []schemas.Topic{schemas.Batches}},
	{"discriminator", schemas.Batches, nil, []schemas.Topic{schemas.Scored}},
	{trainer, schemas.Scored, []schemas.Topic{schemas.Features}, []schemas.Topic{schemas.Features}},
}

const trainer = "trainer"

// snapshot holds the last records and offsets of one lane.
type snapshot struct {
	topics    map[schemas.Topic]laneTopic
	says      []LaneState
	committed map[string]int64 // by stage: offset in its main input; -1: none
	check     *schemas.Check   // what the guard of connections says
	number    int64            // of the open group
	closed    int64            // seq of the embedding behind the last closed group
}

// laneTopic is what was read of one lane of a topic.
type laneTopic struct {
	bounds kafka.Bounds
	last   stream.Record
	found  bool // there is a last record
}

// records returns the number of records, without repetitions.
func (t laneTopic) records() int64 {
	switch {
	case !t.found:
		return 0
	case t.last.Seq < 0:
		return t.bounds.End - t.bounds.Start
	}
	return t.last.Seq + 1
}

// pairs returns the number of records without a seal at the end.
func (t laneTopic) pairs() int64 {
	if t.endsInSeal() {
		return t.records() - 1
	}
	return t.records()
}

func (t laneTopic) endsInSeal() bool { return t.found && t.last.Schema == schemas.SchemaSeal }

// sealed reports whether the lane's last record is a final seal.
func (t laneTopic) sealed() bool {
	if !t.endsInSeal() {
		return false
	}
	r, err := schemas.Unmarshal(t.last.Schema, t.last.Value)
	seal, ok := r.(*schemas.Seal)
	return err == nil && ok && seal.Final
}

// lag returns the number of records of its input that the stage has not read yet.
func (s snapshot) lag(stage string, reads schemas.Topic, writes []schemas.Topic) int64 {
	in := s.topics[reads]
	at, known := in.bounds.Start, false
	if c, ok := s.committed[stage]; ok && c >= 0 {
		at, known = max(at, c), true
	}
	for _, t := range writes {
		if out := s.topics[t]; out.found {
			if mark, err := stream.MarkOf(out.last); err == nil {
				at = max(at, mark.Input(reads).Offset)
			}
		}
	}
	if stage == trainer && !known { // its outputs have no marks, but every batch has one output
		lag := in.records() - s.topics[schemas.Features].records()
		if in.endsInSeal() {
			lag--
		}
		return max(lag, 0)
	}
	if stage == trainer && in.bounds.End-at == 1 && in.endsInSeal() {
		return 0 // the trainer reports the end of its batches, and not whether it has read the records after them
	}
	return max(in.bounds.End-at, 0)
}

// openGroup counts the pairs after the last closed group. Marks do not help: they point to earlier records that a new
// owner reads again.
func (s snapshot) openGroup(size int) OpenGroup {
	pairs := s.topics[schemas.Embeddings].pairs() - s.closed
	if s.topics[schemas.Groups].endsInSeal() {
		pairs-- // the seal is one of the embeddings' records
	}
	return OpenGroup{Number: s.number, Pairs: min(max(pairs, 0), int64(size)), Size: int64(size)}
}
