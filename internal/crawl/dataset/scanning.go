package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// errChanged means that a source no longer begins with its published messages.
var errChanged = errors.New("the source has changed since it was published")

// finding is a scan's result at one position: the pairs of an image, or a problem.
type finding struct {
	messages []found
	pairs    int            // captions of the image; 0: a problem
	example  *shard.Example // instead of published messages: the image is held out
	end      int64          // of the image in its tar
}

// found is one message of a source.
type found struct {
	lane  int
	value []byte
}

// Findings of a scan go to the producer in parts.
const (
	partFindings = 64
	partMessages = 512
	partsWaiting = 4
)

// scanning is a source being read ahead of the producer.
type scanning struct {
	lanes  int
	parts  chan []finding // closed at the end of the source
	cancel context.CancelFunc
	totals shard.Totals // these, err and why are valid after the end
	err    error
	why    string // the tar cannot be read

	part     []finding
	messages int // of the part
}

// scan begins to read a source, independently of the producer's progress.
func (p *producer) scan(ctx context.Context, s *sourceState) *scanning {
	ctx, cancel := context.WithCancel(ctx)
	r := &scanning{lanes: p.o.Lanes, parts: make(chan []finding, partsWaiting), cancel: cancel, totals: shard.Totals{Problems: map[shard.Reason]int{}}}
	held := p.heldOut
	v := shard.Visitor{
		Example: func(ex shard.Example) error { return r.example(ctx, ex, held.Has(ex.ImageID)) },
		Problem: func(pr shard.Problem) error { return r.problem(ctx, pr) },
	}
	go func() {
		defer close(r.parts)
		if s.lost != nil {
			r.totals.Problems[s.lost.Reason]++
			r.err = v.Problem(*s.lost)
		} else {
			r.err = shard.ScanTar(ctx, s.tar, v, &r.totals)
		}
		r.err = errors.Join(r.err, r.send(ctx))
	}()
	return r
}

func (r *scanning) example(ctx context.Context, ex shard.Example, held bool) error {
	f := finding{pairs: len(ex.Captions), end: ex.Image.Offset + ex.Image.Size}
	pairs := shard.Pairs(ex)
	f.messages = make([]found, 0, len(pairs))
	for _, pair := range pairs {
		value, err := schemas.Marshal(pair)
		if err != nil {
			return fmt.Errorf("key %q: %w", ex.Key, err)
		}
		f.messages = append(f.messages, found{ex.ImageID.Lane(r.lanes), value})
	}
	if held {
		ex.Encoded = nil
		f.example = &ex
	}
	return r.add(ctx, f)
}

func (r *scanning) problem(ctx context.Context, pr shard.Problem) error {
	if pr.Reason == shard.ReasonFile {
		r.why = pr.URI + ": " + pr.Detail
	}
	value, err := pr.Record()
	if err != nil {
		return err
	}
	return r.add(ctx, finding{messages: []found{{pr.Lane(r.lanes), value}}})
}

func (r *scanning) add(ctx context.Context, f finding) error {
	r.part = append(r.part, f)
	if r.messages += len(f.messages); r.messages < partMessages && len(r.part) < partFindings {
		return nil
	}
	return r.send(ctx)
}

func (r *scanning) send(ctx context.Context) error {
	if len(r.part) == 0 {
		return nil
	}
	select {
	case r.parts <- r.part:
		r.part, r.messages = make([]finding, 0, partFindings), 0
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop cancels the scan.
func (r *scanning) stop() {
	r.cancel()
	for range r.parts {
	}
}

// readAll publishes the sources in order, including the last block. Meanwhile it reads the next ones.
func (p *producer) readAll(ctx context.Context, sources []*sourceState) error {
	p.scans = make(map[*sourceState]*scanning)
	defer func() {
		for _, r := range p.scans {
			r.stop()
		}
	}()
	read := false
	for i, s := range sources {
		if s.whole {
			p.book.index += s.final.Messages
			continue
		}
		p.readAhead(ctx, sources[i:])
		if err := p.source(ctx, s); err != nil {
			return err
		}
		read = read || s.lost == nil
	}
	if err := p.book.close(ctx); err != nil {
		return err
	}
	if read && p.sum.Scan.Tars == 0 && p.sum.Done == 0 && p.o.Arriving == nil {
		return fmt.Errorf("none of %d tars can be read: the dead letters say why; %s", len(sources), p.why)
	}
	return nil
}

// readAhead begins to read the next sources.
func (p *producer) readAhead(ctx context.Context, sources []*sourceState) {
	for _, s := range sources {
		if len(p.scans) >= p.o.Parallel {
			return
		}
		if !s.whole && p.scans[s] == nil {
			p.scans[s] = p.scan(ctx, s)
		}
	}
}

// source publishes the messages of one source that are not published yet.
func (p *producer) source(ctx context.Context, s *sourceState) error {
	index, held, heldPairs := p.book.index, len(p.examples), p.sum.HeldOutPairs
	err := p.read(ctx, s)
	if errors.Is(err, errChanged) { // nothing of it was published yet
		p.book.index, p.examples, p.sum.HeldOutPairs = index, p.examples[:held], heldPairs
		p.sum.Before -= s.before
		p.sum.Changed = append(p.sum.Changed, s.URI)
		s.forget()
		p.scans[s] = p.scan(ctx, s)
		err = p.read(ctx, s)
	}
	if err != nil {
		return err
	}
	p.o.Progress.Bytes.Add(s.Size - s.seen)
	p.book.finish(s)
	return nil
}

// read takes the findings of a source's scan.
func (p *producer) read(ctx context.Context, s *sourceState) error {
	r := p.scans[s]
	defer delete(p.scans, s)
	defer r.stop()
	p.cur = s
	for part := range r.parts {
		for _, f := range part {
			if err := p.take(ctx, f); err != nil {
				return err
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	if r.totals.Tars == 0 {
		s.Version = "" // it was not read to its end: look again the next time
	}
	if err := s.check(); err != nil {
		return err
	}
	p.sum.Scan.Add(r.totals)
	p.why = cmp.Or(p.why, r.why)
	return nil
}

func (p *producer) take(ctx context.Context, f finding) error {
	count := &p.sum.Problems
	if f.pairs > 0 {
		count = &p.sum.Pairs
	}
	for _, m := range f.messages {
		if err := p.send(ctx, m, f.example != nil, count); err != nil {
			return err
		}
	}
	if f.end > p.cur.seen {
		p.o.Progress.Bytes.Add(f.end - p.cur.seen)
		p.cur.seen = f.end
	}
	p.o.Progress.Pairs.Store(int64(p.sum.Pairs))
	if f.example != nil {
		p.examples = append(p.examples, *f.example)
		p.sum.HeldOutImages = p.heldOut.Len()
		p.sum.HeldOutPairs += f.pairs
	}
	return nil
}
