package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// errMaking marks a stage that cannot be made. Its settings or its models are at fault, and the process is of no use.
var errMaking = errors.New("making stage")

// lane runs a stage on one lane, from its last mark until it is told to stop.
type lane struct {
	log         *Log
	spec        StageSpec
	id          int
	instruments *instruments
	pulse       *Pulse
	roster      *roster
	anew        *schemas.Topic // was made anew before the lane was taken up
	spell       spell
	commit      func(map[schemas.Topic]int64) // takes the processed offsets whose outputs are all acknowledged
	stage       Stage
	readers     map[schemas.Topic]*Reader
	out         *output
	pos         []TopicPosition         // after the records handed to Process, in the order of the spec's inputs
	kept        map[schemas.Topic]int64 // number of the message whose place was noted in the control topic
	keepNext    time.Time
	held        bool // Process was called since the last Flush
	nobody      bool // at the last look, nobody would make what the lane waits for
	pending     pendingCommit

	mu   sync.Mutex
	stop context.CancelFunc // ends reading when the publisher fails
}

func newLane(r *roster, spec StageSpec, id int) *lane {
	return &lane{log: r.log, spec: spec, id: id, instruments: r.instruments, pulse: r.watchdog.Lane(id), roster: r, anew: r.anew.Load(), spell: spell{roster: r, lane: id}}
}

// open finds the point to go on from (invariants 4 to 6), and opens the inputs there.
func (ln *lane) open(ctx context.Context, budget int64) error {
	mark, published, wrote, err := ln.recover(ctx)
	if err != nil {
		return err
	}
	ln.log.logger.Info("taking up a lane", keyStage, ln.spec.Name, keyLane, ln.id, keyFrom, mark.Inputs, keyTo, mark.Seqs)
	if ln.stage, err = ln.spec.New(ln.id, mark.State); err != nil {
		return fmt.Errorf("%w: %w", errMaking, err)
	}
	share := budget / int64(len(ln.spec.Inputs)+1)
	ln.kept, ln.keepNext = make(map[schemas.Topic]int64), time.Now().Add(ln.log.keepEvery)
	ln.pending.next = time.Now().Add(commitEvery) // a lane that has just been taken up has not shown that it works
	ln.out = newOutput(ln, mark, published, share)
	if ln.out.again, err = ln.compareWith(ctx, mark, published); err != nil {
		return err
	}
	ln.readers = make(map[schemas.Topic]*Reader, len(ln.spec.Inputs))
	for _, t := range ln.spec.Inputs {
		from := mark.input(t)
		if from, err = ln.skipTrimmed(ctx, t, from); err != nil {
			return err
		}
		skips, err := ln.log.skipsOf(ctx, t, ln.id)
		if err != nil {
			return err
		}
		if err := ln.log.checkSame(ctx, ln.spec.Name, t, ln.id, from, wrote, skips); err != nil {
			return err
		}
		ln.readers[t] = ln.log.newReader(t, ln.id, from, share, ln.instruments, skips)
		ln.pos = append(ln.pos, TopicPosition{t, from})
	}
	return nil
}

// recover reads the end of every output and chooses the mark to go on from. It also returns the latest record of all
// outputs.
func (ln *lane) recover(ctx context.Context) (best Mark, published map[schemas.Topic]int64, wrote Record, err error) {
	return ln.log.recover(ctx, ln.spec.Name, ln.id, ln.spec.Inputs, ln.spec.Outputs)
}

// skipTrimmed lets a lane that was never begun start with the first pair that retention has left.
func (ln *lane) skipTrimmed(ctx context.Context, t schemas.Topic, from Position) (Position, error) {
	if Sequenced(t) || from != (Position{}) {
		return from, nil
	}
	b, err := ln.log.Bounds(ctx, t, ln.id)
	if err != nil {
		return from, err
	}
	if b.Start > 0 {
		ln.log.logger.Warn("retention removed records before they were read", keyTopic, t, keyLane, ln.id, keyCount, b.Start)
		ln.log.metrics.trimmed.WithLabelValues(string(t)).Add(float64(b.Start))
	}
	return Position{Offset: b.Start}, nil
}

// current reports whether nobody has written to the outputs since this lane did. The lane may then go on as it is.
func (ln *lane) current(ctx context.Context) (bool, error) {
	if ln.out.pub.failure() != nil {
		return false, nil
	}
	for _, s := range ln.out.seqs {
		l, err := ln.log.stopped(ctx, ln.spec.Name, s.Topic, ln.id)
		if err != nil {
			return false, err
		}
		next := int64(0)
		if l.found {
			next = l.seq + 1
		}
		if next != max(s.Seq, ln.out.published[s.Topic]) {
			return false, nil
		}
	}
	return true, nil
}

// setBudget divides a lane's share of the bytes in flight among its inputs and its output.
func (ln *lane) setBudget(budget int64) {
	share := budget / int64(len(ln.spec.Inputs)+1)
	ln.out.pub.setBudget(share)
	for _, r := range ln.readers {
		r.f.setBudget(share)
	}
}

// run processes records until reading ends. Then it finishes what is in hand, and may be called again. work outlives
// reading by the drain time. run processes a record that was read even if reading ends meanwhile, because its reader
// will not return it again.
func (ln *lane) run(reading, work context.Context) error {
	reading, stop := context.WithCancel(reading)
	defer stop()
	ln.mu.Lock()
	ln.stop = stop
	ln.mu.Unlock()
	if err := ln.out.pub.failure(); err != nil { // the publisher failed before there was anything to stop
		return err
	}
	for {
		rec, err := ln.next(reading, work)
		switch {
		case errors.Is(err, ErrPoison):
			if err := ln.deadLetter(work, rec, err); err != nil {
				return err
			}
			continue
		case err != nil && reading.Err() != nil:
			return ln.drain(work)
		case err != nil:
			return err
		}
		if err := ln.step(work, rec); err != nil {
			return err
		}
	}
}

// writingFailed ends reading, so that the lane notices the failure while there is nothing to read.
func (ln *lane) writingFailed() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.stop != nil {
		ln.stop()
	}
}

func (ln *lane) deadLetter(work context.Context, rec Record, err error) error {
	ln.out.work = work
	return ln.out.DeadLetter(rec, reason(err))
}

// step processes one record.
func (ln *lane) step(work context.Context, rec Record) error {
	if err := ln.spec.at(afterRead, ln.id); err != nil {
		return err
	}
	ln.advance(&rec)
	ln.pulse.Take()
	ln.out.work = work
	ln.held = true
	started := time.Now()
	err := ln.stage.Process(work, rec, ln.out)
	ln.instruments.worked(started)
	switch {
	case newer(&rec, err):
		err = NewerVersion(&rec, err)
	case errors.Is(err, ErrPoison):
		err = ln.deadLetter(work, rec, err)
	case err == nil:
		err = ln.spec.at(afterProcess, ln.id)
	default:
		err = fmt.Errorf("processing %s, lane %d, offset %d: %w", rec.Topic, rec.Lane, rec.Offset, err)
	}
	if err != nil {
		return err
	}
	ln.pulse.Done()
	return ln.maybeCommit()
}

// next returns the next record of the input that the stage asks for. While there is none, next flushes the stage.
func (ln *lane) next(reading, work context.Context) (Record, error) {
	r, ok := ln.readers[ln.stage.Input()]
	if !ok {
		return Record{}, fmt.Errorf("stage asks for %q, which is none of its inputs %v", ln.stage.Input(), ln.spec.Inputs)
	}
	if reading.Err() != nil {
		return Record{}, reading.Err()
	}
	rec, ok, err := r.poll(reading)
	if !ok && err == nil && ln.held {
		wait, cancel := context.WithTimeout(reading, ln.log.cfg.FlushAfter)
		rec, err = r.Next(wait)
		cancel()
		if err != nil && reading.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			if err = ln.flush(work); err == nil {
				rec, err = ln.wait(reading, r)
			}
		}
	} else if !ok && err == nil {
		rec, err = ln.wait(reading, r)
	}
	return rec, err
}

// advance moves the lane's position past rec, and gives rec the positions of the other inputs. A reader's own
// position would be wrong here. It may lie past a record that was read but not processed, because the lane is given
// up.
func (ln *lane) advance(rec *Record) {
	for i := range ln.pos {
		if ln.pos[i].Topic == rec.Topic {
			ln.pos[i].Position = rec.Next()
		} else {
			rec.others = append(rec.others, ln.pos[i])
		}
	}
}

// wait waits for a record, and commits meanwhile. After a while it says what it waits for.
func (ln *lane) wait(reading context.Context, r *Reader) (rec Record, err error) {
	long, checked := time.Now().Add(ln.log.saidAfter), false
	ln.nobody = false
	err = ln.spell.wait(reading, func(tick context.Context) error {
		rec, err = r.Next(tick)
		return err
	}, func() error {
		if time.Now().After(long) {
			long = time.Now().Add(ln.log.saidAfter)
			if err := ln.lookAround(reading, r, !checked); err != nil {
				return err
			}
			checked = true
		}
		return ln.maybeCommit()
	}, func() (string, bool) { return ln.wants(r) })
	return rec, err
}

// lookAround looks why a lane has waited for long. At first it asks whether the topic was made anew, and the record lies
// before.
func (ln *lane) lookAround(ctx context.Context, r *Reader, first bool) error {
	if first {
		if err := ln.log.checkSeqs(ctx, r.f.topic, ln.id, r.pos, r.skips); err != nil {
			return err
		}
	}
	return ln.forgo(ctx, r)
}

// wants says what the lane waits for. When another input has records, someone else does not do their part.
func (ln *lane) wants(r *Reader) (what string, held bool) {
	what = string(r.f.topic)
	if w, ok := ln.stage.(Waiter); ok {
		what = w.Waiting()
	}
	for _, other := range ln.readers {
		held = held || other != r && other.f.high.Load() > other.pos.Offset
	}
	return what, held
}

func (ln *lane) flush(work context.Context) error {
	ln.out.work = work
	ln.held = false
	started := time.Now()
	ln.pulse.Take()
	err := ln.stage.Flush(work, ln.out)
	ln.instruments.worked(started)
	if err != nil {
		return fmt.Errorf("flushing: %w", err)
	}
	ln.pulse.Done()
	return nil
}

// drain finishes what is in hand before the lane is given up.
func (ln *lane) drain(work context.Context) error {
	if err := ln.out.pub.failure(); err != nil {
		return err
	}
	if err := ln.flush(work); err != nil {
		return err
	}
	if err := ln.out.pub.Flush(work); err != nil {
		return fmt.Errorf("waiting for acks: %w", err)
	}
	if err := ln.keep(work); err != nil {
		return err
	}
	ln.pending.take(ln.offsets(), 0)
	return ln.commitNow()
}

// close stops reading and writing at once. After drain there is nothing left to write.
func (ln *lane) close() {
	if ln.out != nil {
		ln.out.pub.abort()
		ln.out.again.close()
	}
	for _, r := range ln.readers {
		r.Close()
	}
	if c, ok := ln.stage.(io.Closer); ok {
		if err := c.Close(); err != nil {
			ln.log.logger.Warn("closing a stage", keyStage, ln.spec.Name, keyLane, ln.id, keyErr, err)
		}
	}
}

func (ln *lane) offsets() map[schemas.Topic]int64 {
	offsets := make(map[schemas.Topic]int64, len(ln.readers))
	for t, r := range ln.readers {
		offsets[t] = r.Position().Offset
	}
	return offsets
}

const commitEvery = time.Second

// pendingCommit holds offsets back until what was emitted before them is acknowledged.
type pendingCommit struct {
	offsets map[schemas.Topic]int64
	after   int64 // acks to wait for
	next    time.Time
}

func (p *pendingCommit) take(offsets map[schemas.Topic]int64, after int64) {
	p.offsets, p.after = offsets, after
}

// maybeCommit commits, about once a second, the offsets of a second before.
func (ln *lane) maybeCommit() error {
	now := time.Now()
	if now.Before(ln.pending.next) {
		return nil
	}
	ln.pending.next = now.Add(commitEvery)
	if err := ln.roster.madeAnew(ln.anew); err != nil {
		return Transient(err)
	}
	ln.roster.unpark(ln.id)
	if now.After(ln.keepNext) {
		if err := ln.keep(ln.out.work); err != nil {
			return err
		}
	}
	put, acked := ln.out.pub.progress()
	if ln.pending.offsets != nil && acked < ln.pending.after {
		return nil
	}
	var err error
	if ln.pending.offsets != nil {
		err = ln.commitNow()
	}
	ln.pending.take(ln.offsets(), put)
	return err
}

func (ln *lane) commitNow() error {
	if err := ln.spec.at(beforeCommit, ln.id); err != nil {
		return err
	}
	ln.commit(ln.pending.offsets)
	ln.pending.offsets = nil
	return nil
}
