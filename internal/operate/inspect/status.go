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

// Stage says how far one stage is in all lanes.
type Stage struct {
	Name         string        `json:"name"`
	Reads        schemas.Topic `json:"reads"`
	Lag          int64         `json:"lag"`
	WorstLane    int           `json:"worst_lane"` // the one with the largest lag; -1: none has any
	LastProgress *time.Time    `json:"last_progress,omitempty"`
}

// Lane says how far the stages are in one lane.
type Lane struct {
	Lane  int              `json:"lane"`
	Pairs int64            `json:"pairs"` // without a seal at the end
	Lag   map[string]int64 `json:"lag"`   // by stage
	Group OpenGroup        `json:"open_group"`
	State State            `json:"state"`
	Says  []LaneState      `json:"says,omitempty"` // of stages that have parked the lane, or wait in it

	Connections    *Connections `json:"connections,omitempty"`     // what the guard of connections says; nil: there is none
	ConnectionsOff string       `json:"connections_off,omitempty"` // why the discriminator mines none in the lane
}

// Connections is what the guard of connections says of a lane.
type Connections struct {
	State     string  `json:"state"` // on, off, or measuring
	Precision float64 `json:"precision"`
	Low       float64 `json:"low"` // of its interval
	High      float64 `json:"high"`
	Base      float64 `json:"base_rate"`
	Above     float64 `json:"above"`  // threshold
	Judged    int32   `json:"judged"` // connections that people have judged
	Says      string  `json:"says"`   // all that in a sentence
}

// connections returns what a check says. Checks of earlier discriminators have no precision.
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

// State is what a lane waits for.
type State string

// The states of a lane.
const (
	StateOpen  State = "open"  // more pairs may come
	StateEnded State = "ended" // a final seal was written, stages are still at work
	StateDone  State = "done"  // and every stage has reached it
)

// OpenGroup is the group that a lane is filling.
type OpenGroup struct {
	Number int64 `json:"number"` // this many groups were closed before it
	Pairs  int64 `json:"pairs"`  // at most Size: what lies behind is for the next groups
	Size   int64 `json:"size"`   // number of pairs at which it closes by itself
}

// Waiting counts batches that were made and not used yet.
type Waiting struct {
	Scoring  int64 `json:"scoring"`
	Training int64 `json:"training"`
}

// Topic says what one topic holds.
type Topic struct {
	Topic    schemas.Topic `json:"topic"`
	Records  int64         `json:"records"`  // without repetitions
	Repeated int64         `json:"repeated"` // repetitions in the log, foreign records and control records
	Last     *time.Time    `json:"last,omitempty"`
}

// DeadCount counts the dead letters of a stage that have a reason in common.
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

// stageTopics lists the stages, what each follows, what it reads besides, and what it writes.
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

// snapshot is what was read of one lane.
type snapshot struct {
	topics    map[schemas.Topic]laneTopic
	says      []LaneState
	committed map[string]int64 // by stage: offset in what it reads; -1: none
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

// lag returns how many records of its input the stage has still to read.
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
	if stage == trainer && !known { // its outputs carry no marks, but there is one for every batch
		lag := in.records() - s.topics[schemas.Features].records()
		if in.endsInSeal() {
			lag--
		}
		return max(lag, 0)
	}
	if stage == trainer && in.bounds.End-at == 1 && in.endsInSeal() {
		return 0 // the trainer says where its batches end, not whether it has read what follows them
	}
	return max(in.bounds.End-at, 0)
}

// openGroup counts what lies behind the last closed group. A mark would not do: it leads back to what a new owner reads
// again.
func (s snapshot) openGroup(size int) OpenGroup {
	pairs := s.topics[schemas.Embeddings].pairs() - s.closed
	if s.topics[schemas.Groups].endsInSeal() {
		pairs-- // the seal lies among the embeddings
	}
	return OpenGroup{Number: s.number, Pairs: min(max(pairs, 0), int64(size)), Size: int64(size)}
}
