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

// errMaking marks a stage that cannot be made. The process's settings or models are at fault.
var errMaking = errors.New("making stage")

// lane runs a stage on one lane, from its last mark until it is told to stop.
type lane struct {
	log         *Log
	spec        StageSpec
	id          int
	instruments *instruments
	pulse       *Pulse
	roster      *roster
	anew        *schemas.Topic // recreated before the lane was started
	spell       spell
	commit      func(map[schemas.Topic]int64) // takes the processed offsets whose outputs are all acknowledged
	stage       Stage
	readers     map[schemas.Topic]*Reader
	rereads     map[schemas.Topic]*reread
	out         *output
	pos         []TopicPosition         // after the records handed to Process, in the order of the spec's inputs
	kept        map[schemas.Topic]int64 // number of the message whose position was noted in the control topic
	keepNext    time.Time
	untaken     *Record   // a record that was read, but that the stage could not take yet
	held        bool      // Process was called since the last Flush
	now         time.Time // when the lane has finished a record, or a wait
	ended       bool      // at the last check, the awaited input had ended with its final seal
	starved     bool      // at the last check, the awaited records could not come any more
	pending     pendingCommit

	mu   sync.Mutex
	stop context.CancelFunc // ends reading when the publisher fails
}

func newLane(r *roster, spec StageSpec, id int) *lane {
	return &lane{log: r.log, spec: spec, id: id, instruments: r.instruments, pulse: r.watchdog.Lane(id), roster: r, anew: r.anew.Load(), spell: spell{roster: r, lane: id}}
}

// open finds the point to resume from (invariants 4 to 6), and opens the inputs there.
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
	ln.pending.next = time.Now().Add(commitEvery) // a lane that has just started has not shown that it works
	ln.out = newOutput(ln, mark, published, share)
	// Read the skips once, for reading and for comparing. Between two reads an operator could skip something. Then the
	// lane would make other records without it, and omit them in favour of those in the log with their seqs.
	skips, err := ln.log.Skips(ctx)
	if err != nil {
		return fmt.Errorf("asking for skips: %w", err)
	}
	if ln.out.again, err = ln.compareWith(ctx, mark, published, skips); err != nil {
		return err
	}
	if err := ln.spec.at(beforeReading, ln.id); err != nil {
		return err
	}
	ln.openRereads(mark)
	ln.readers = make(map[schemas.Topic]*Reader, len(ln.spec.Inputs))
	for _, t := range ln.spec.Inputs {
		from := mark.input(t)
		if from, err = ln.skipTrimmed(ctx, t, from); err != nil {
			return err
		}
		given := ofLane(skips, t, ln.id)
		if err := ln.log.checkSame(ctx, ln.spec.Name, t, ln.id, from, wrote, given); err != nil {
			return err
		}
		ln.readers[t] = ln.log.newReader(t, ln.id, from, share, ln.instruments, given)
		ln.pos = append(ln.pos, TopicPosition{Topic: t, Position: from})
	}
	return nil
}

// recover reads the end of every output and chooses the mark to resume from. It also returns the latest record of all
// outputs. It refuses an output that has lost records.
func (ln *lane) recover(ctx context.Context) (best Mark, published map[schemas.Topic]int64, latest Record, err error) {
	best, published, wrote, err := ln.log.recover(ctx, ln.spec.Name, ln.id, ln.spec.Inputs, ln.spec.Outputs)
	for _, rec := range wrote {
		err = errors.Join(err, ln.log.checkPlace(ctx, rec.Topic, ln.id, Position{Offset: rec.Offset, Seq: rec.Seq}))
		if rec.Time.After(latest.Time) {
			latest = rec
		}
	}
	return best, published, latest, err
}

// skipTrimmed makes a lane that was never begun start with the first pair that retention has left.
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

// current reports whether the outputs have no records after this lane's own. The lane may then continue as it is.
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
		r.f.SetBudget(share)
	}
}

// run processes records until reading ends, then finishes the records in hand. It may be called again. work outlives
// reading by the drain time. run processes a record that was read even if reading ends meanwhile, because its reader
// will not return it again.
func (ln *lane) run(reading, work context.Context) error {
	reading, stop := context.WithCancel(reading)
	defer stop()
	ln.mu.Lock()
	ln.stop = stop
	ln.mu.Unlock()
	if err := ln.out.pub.failure(); err != nil { // the publisher failed before ln.stop was set
		return err
	}
	ln.now = time.Now()
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
		if err := ln.step(reading, work, rec); err != nil {
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
	err = ln.out.DeadLetter(rec, reason(err)) // which may wait for acks
	ln.now = time.Now()
	return err
}

// step processes one record.
func (ln *lane) step(reading, work context.Context, rec Record) error {
	if err := ln.spec.at(afterRead, ln.id); err != nil {
		return err
	}
	taken := rec
	ln.advance(&taken)
	ln.pulse.take(ln.now)
	ln.out.work = work
	ln.held = true
	ln.log.Waited(ln.spec.Name, &rec)
	err := ln.process(work, taken)
	if errors.Is(err, ErrNotYet) {
		err = ln.ask(reading, work, taken, err)
	}
	switch {
	case errors.Is(err, ErrNotYet): // reading has ended
		untaken := rec // rec itself stays on the stack
		ln.untaken = &untaken
		return nil
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
	return ln.commitAt(ln.now)
}

// next returns the next record of the input that the stage asks for. While the input is empty, next flushes the stage.
func (ln *lane) next(reading, work context.Context) (Record, error) {
	if reading.Err() != nil {
		return Record{}, reading.Err()
	}
	if rec := ln.untaken; rec != nil {
		ln.untaken = nil
		return *rec, nil
	}
	r, err := ln.source(reading)
	if err != nil {
		return Record{}, err
	}
	rec, ok, err := r.poll(reading)
	if ok || err != nil {
		return rec, err
	}
	if ln.held {
		wait, cancel := context.WithTimeout(reading, ln.log.cfg.FlushAfter)
		rec, err = r.Next(wait)
		cancel()
		if err != nil && reading.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			if err = ln.flush(work); err == nil {
				rec, err = ln.wait(reading, r)
			}
		}
	} else {
		rec, err = ln.wait(reading, r)
	}
	ln.now = time.Now()
	return rec, err
}

// advance moves the lane's position past rec, and gives rec the positions of the other inputs. A reader's own position
// would be wrong here: it may lie past a record that was read but not processed, because the lane is given up.
func (ln *lane) advance(rec *Record) {
	for i := range ln.pos {
		if ln.pos[i].Topic == rec.Topic {
			ln.pos[i].Position = rec.Next()
		} else {
			rec.Others = append(rec.Others, ln.pos[i])
		}
	}
	ln.reread(rec)
}

func (ln *lane) flush(work context.Context) error {
	ln.out.work = work
	ln.held = false
	started := time.Now()
	ln.pulse.Take()
	err := ln.stage.Flush(ln.out.begin(work), ln.out)
	ln.instruments.worked(time.Since(started))
	if err != nil {
		return fmt.Errorf("flushing: %w", err)
	}
	ln.pulse.Done()
	return nil
}

// drain finishes the records in hand before the lane is given up.
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
	for _, r := range ln.rereads {
		r.close()
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

// pendingCommit holds offsets back until the records emitted before them are acknowledged.
type pendingCommit struct {
	offsets map[schemas.Topic]int64
	after   int64 // acks to wait for
	next    time.Time
}

func (p *pendingCommit) take(offsets map[schemas.Topic]int64, after int64) {
	p.offsets, p.after = offsets, after
}

// maybeCommit commits the offsets of a second before, about once a second.
func (ln *lane) maybeCommit() error { return ln.commitAt(time.Now()) }

// commitAt is maybeCommit with the time already read.
func (ln *lane) commitAt(now time.Time) error {
	if now.Before(ln.pending.next) {
		return nil
	}
	defer func() { ln.now = time.Now() }()
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
