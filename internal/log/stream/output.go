package stream

import (
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// output implements Output for one lane.
type output struct {
	ln        *lane
	work      context.Context //nolint:containedctx // of the running Process or Flush call
	pub       *Publisher
	seqs      []TopicSeq // next seqs, in the order of the spec's outputs
	published map[schemas.Topic]int64
	again     *repeated // nil: published records need no comparison
	call      call
	slab      slab
}

func newOutput(ln *lane, mark Mark, published map[schemas.Topic]int64, budget int64) *output {
	o := &output{ln: ln, published: published, pub: ln.log.newPublisher(budget, ln.instruments)}
	o.slab.pub = o.pub
	for _, t := range ln.spec.Outputs {
		o.seqs = append(o.seqs, TopicSeq{t, mark.seq(t)})
	}
	if ln.spec.hook != nil {
		o.pub.writing = func(schemas.Topic) error { return ln.spec.at(beforeWrite, ln.id) }
		o.pub.wrote = func(schemas.Topic) error { return ln.spec.at(afterWrite, ln.id) }
	}
	o.pub.places, o.pub.failed, o.pub.name = true, ln.writingFailed, ln.spec.Name
	o.pub.start()
	return o
}

func (o *output) Emit(topic schemas.Topic, rec schemas.Record, resume Mark) error {
	i := slices.IndexFunc(o.seqs, func(s TopicSeq) bool { return s.Topic == topic })
	if i < 0 {
		return fmt.Errorf("emitting to %s: stage %s has only the outputs %v", topic, o.ln.spec.Name, o.ln.spec.Outputs)
	}
	seq := o.seqs[i].Seq
	o.seqs[i].Seq++
	if seq < o.published[topic] { // invariant 4: it is in the log already
		return o.again.compare(o.work, topic, o.ln.id, seq, rec)
	}
	if err := o.again.unsure(); err != nil {
		return err
	}
	if resume.Seqs == nil {
		resume.Seqs = o.seqs
	}
	if err := o.checkResume(topic, resume); err != nil {
		return err
	}
	value, err := schemas.Append(o.slab.bytes, rec)
	if err != nil {
		return err
	}
	m := o.trace(rec, o.slab.sequenced(topic, o.ln.id, seq, resume, rec.Schema(), o.slab.keep(value)))
	if n := m.HeaderSize(); n > kafka.MaxHeaderBytes {
		return fmt.Errorf("emitting to %s, lane %d, seq %d: the headers would take %d bytes, and readers take %d: the state of stage %s, %d bytes, is too large",
			topic, o.ln.id, seq, n, kafka.MaxHeaderBytes, o.ln.spec.Name, len(resume.State))
	}
	return o.pub.enqueue(o.work, m)
}

// checkResume refuses a mark that lies ahead of the records read or emitted. After a crash, such a mark would lose
// records.
func (o *output) checkResume(topic schemas.Topic, m Mark) error {
	for _, p := range m.Inputs {
		if slices.Contains(o.ln.spec.Rereads, p.Topic) {
			if p.Seq > m.seq(p.Topic) || p.Offset > p.Seq {
				return fmt.Errorf("emitting to %s: the mark wants seq %d of %s again, at offset %d, and lies at seq %d", topic, p.Seq, p.Topic, p.Offset, m.seq(p.Topic))
			}
			continue
		}
		if p.Offset > (Mark{Inputs: o.ln.pos}).input(p.Topic).Offset {
			return fmt.Errorf("emitting to %s: the mark lies at %s offset %d, which was not read yet", topic, p.Topic, p.Offset)
		}
	}
	for i, s := range o.seqs {
		if m.seq(s.Topic) > o.seqs[i].Seq {
			return fmt.Errorf("emitting to %s: the mark lies at %s seq %d, which was not emitted yet", topic, s.Topic, m.seq(s.Topic))
		}
	}
	return nil
}

func (o *output) Before(rec Record, state []byte) Mark {
	return Mark{Inputs: o.inputs(rec, rec.Position()), Seqs: slices.Clone(o.seqs), State: state}
}

func (o *output) After(rec Record, state []byte) Mark {
	return Mark{Inputs: o.inputs(rec, rec.Next()), State: state}
}

// inputs returns the positions of the inputs, with another one for that of rec. Outputs that the stage reads again are
// no inputs.
func (o *output) inputs(rec Record, own Position) []TopicPosition {
	inputs := make([]TopicPosition, 0, len(rec.Others)+1)
	if !slices.Contains(o.ln.spec.Rereads, rec.Topic) {
		inputs = append(inputs, TopicPosition{Topic: rec.Topic, Position: own})
	}
	return append(inputs, rec.Others...)
}

func (o *output) DeadLetter(rec Record, reason string) error {
	o.ln.instruments.deadLettered(reasonClass(reason))
	o.ln.log.logger.Debug("setting a record aside", keyStage, o.ln.spec.Name, keyTopic, rec.Topic, keyLane, rec.Lane,
		keyOffset, rec.Offset, keyReason, reason)
	return o.pub.enqueue(o.work, deadLetter(o.ln.spec.Name, rec, reason))
}
