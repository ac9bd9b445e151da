package dataset

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// ProduceOptions select the messages and their order.
type ProduceOptions struct {
	Lanes    int
	HeldOut  int     // images kept back for evaluation: those with the smallest ids, of the readable ones
	Held     *Corpus // instead of HeldOut: images chosen already
	Final    bool    // end every lane with a final seal: no pair follows
	Anew     bool    // publish everything, even if published before
	Buffer   int     // messages shuffled together; 0: they keep the order of the tars
	Seed     uint64  // of the shuffling
	Progress *Progress
	// Arriving, if set, says that more tars will come. Tars that it refuses are left for later, and it is no error if
	// none can be read.
	Arriving func(shard.Tar) bool
	Weights  []int            // of the paths: tars of each to take in a turn; nil: one path after the other
	Parallel int              // tars read at once; 0: 4. The order of messages does not depend on it
	Remote   shard.OpenRemote // opens stores; nil: [shard.OpenStore]
}

// defaultParallel is the number of tars that are read at once.
const defaultParallel = 4

// Progress may be read while pairs are produced.
type Progress struct {
	Bytes, AllBytes atomic.Int64 // of the tars
	Pairs           atomic.Int64
}

// Message is one record of the topic "pairs".
type Message struct {
	Lane   int
	Schema string // value of the schema header
	Value  []byte
}

// Summary counts the messages of a run, and the tars and images without messages.
type Summary struct {
	Scan     shard.Totals // tars that were left out are not in it
	Messages int          // all that were published
	Pairs    int          // of these: pairs
	Problems int          // of these: records of problems, bound for the dead letters
	Seals    int          // of these: seals
	PerLane  []int        // messages of each lane
	Before   int          // messages that an earlier run has published, of tars that were read again
	Done     int          // tars that an earlier run has published, and that were not read
	Changed  []string     // sources that are others now than when they were published; all of them was published

	HeldOutImages int
	HeldOutPairs  int
}

// Produce publishes the messages of the tars, through a ledger that knows the earlier ones. It returns the examples
// held out, without their image bytes. A run that stopped may be repeated, and resumes there.
func Produce(ctx context.Context, paths []string, o ProduceOptions, ledger Ledger) (Summary, []shard.Example, error) {
	if o.Lanes < 1 {
		return Summary{}, nil, fmt.Errorf("producing pairs: %d lanes, want at least 1", o.Lanes)
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	p := &producer{o: o, sum: Summary{PerLane: make([]int, o.Lanes), Scan: shard.Totals{Problems: map[shard.Reason]int{}}}}
	p.book = book{o: o, ledger: ledger, sum: &p.sum}
	if err := p.holdOut(ctx, paths); err != nil {
		return p.sum, nil, err
	}
	if err := p.run(ctx, paths); err != nil {
		return p.sum, nil, fmt.Errorf("producing pairs: %w", err)
	}
	return p.sum, p.examples, nil
}

type producer struct {
	o        ProduceOptions
	sum      Summary
	book     book
	cur      *sourceState // that is being read
	heldOut  *shard.HeldOut
	examples []shard.Example // held out
	scans    map[*sourceState]*scanning
	why      string // the first tar that cannot be read
}

func (p *producer) run(ctx context.Context, paths []string) (err error) {
	var found *shard.Found
	var opening errgroup.Group // without a context of its own: stores are opened here, and used later
	opening.Go(func() error { return p.book.open(ctx) })
	found, err = shard.Find(ctx, paths, p.o.Remote)
	if err == nil {
		defer func() { err = errors.Join(err, found.Close()) }()
	}
	if opened := opening.Wait(); err != nil || opened != nil {
		return errors.Join(err, opened)
	}
	sources, err := p.plan(ctx, found)
	if err != nil {
		return err
	}
	if err := p.readAll(ctx, sources); err != nil {
		return err
	}
	if !p.o.Final {
		return nil
	}
	return p.book.seal(ctx)
}

// plan returns the sources in order. Those that are published to their end, and unchanged, need not be read.
func (p *producer) plan(ctx context.Context, found *shard.Found) ([]*sourceState, error) {
	var all, todo []*sourceState
	for _, tar := range interleave(found.Tars, p.o.Weights) {
		s := newSource(tar)
		if p.o.Arriving != nil && !p.book.published(s) && !p.o.Arriving(tar) {
			continue
		}
		all = append(all, s)
	}
	for _, problem := range found.Lost {
		s := &sourceState{SourceNote: SourceNote{URI: problem.URI}, lost: &problem}
		s.forget()
		all = append(all, s)
	}
	for _, s := range all {
		s.HeldOut = p.heldOut.Len()
		if err := p.book.recognise(s); err != nil {
			return nil, err
		}
		if s.whole {
			p.sum.Done++
			continue
		}
		p.o.Progress.AllBytes.Add(s.Size)
		todo = append(todo, s)
	}
	if p.o.Buffer > 0 {
		shuffleSources(all, p.o.Seed)
	}
	return all, p.book.resume(ctx, todo)
}

// holdOut chooses the images for evaluation in a scan of its own. It does not choose images that cannot be decoded.
// They become dead letters, and would make an evaluation fail.
func (p *producer) holdOut(ctx context.Context, paths []string) error {
	p.heldOut = shard.NewHeldOut(p.o.HeldOut)
	if p.o.Held != nil {
		p.heldOut = shard.NewHeldOut(p.o.Held.Images())
		for _, image := range p.o.Held.images {
			p.heldOut.Add(image.id)
		}
		return nil
	}
	if p.o.HeldOut <= 0 {
		return nil
	}
	readable := 0
	_, err := shard.Scan(ctx, paths, shard.Visitor{
		Example: func(ex shard.Example) error {
			if !p.heldOut.Wants(ex.ImageID) {
				readable++
				return nil
			}
			if imaging.Check(ex.Encoded) == nil {
				p.heldOut.Add(ex.ImageID)
				readable++
			}
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // the second scan reports them
		Remote:  p.o.Remote,
	})
	if err != nil {
		return fmt.Errorf("choosing the images to hold out: %w", err)
	}
	return checkHeldOut(p.o.HeldOut, p.heldOut, readable)
}

// checkHeldOut returns an error if all images or more would be held out.
func checkHeldOut(wanted int, chosen *shard.HeldOut, images int) error {
	if wanted > 0 && (chosen.Len() < wanted || images <= wanted) {
		return fmt.Errorf("choosing the images to hold out: %d are wanted, but there are only %d images", wanted, images)
	}
	return nil
}

// send takes the next message of the source. A message that is held out has its number there, but is not published.
func (p *producer) send(ctx context.Context, m found, held bool, count *int) error {
	published, err := p.cur.take(m.value)
	switch {
	case err != nil:
		return err
	case held:
	case published:
		p.sum.Before++
		p.cur.before++
	default:
		p.book.add(p.cur, entry{Message{Lane: m.lane, Schema: schemas.SchemaPair, Value: m.value}, count})
	}
	return p.book.step(ctx, p.cur)
}
