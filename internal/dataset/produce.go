package dataset

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/schemas"
)

// ProduceOptions says what is published and where.
type ProduceOptions struct {
	Lanes   int
	HeldOut int     // images kept back for evaluation: those with the smallest ids, of the readable ones
	Held    *Corpus // instead of HeldOut: images that were chosen already
	Final   bool    // end every lane with a final seal: no pair follows
}

// Message is one record of the topic "pairs".
type Message struct {
	Lane   int
	Schema string // value of the schema header
	Value  []byte
}

// Summary counts what was published and what was not.
type Summary struct {
	Scan     shard.Totals
	Messages int   // all that were published
	Pairs    int   // of these: pairs
	Problems int   // of these: records of problems, bound for the dead letters
	Seals    int   // of these: seals
	PerLane  []int // messages of each lane

	HeldOutImages int
	HeldOutPairs  int
}

// Produce scans the tars and hands every message to publish, one after the other. An error of publish stops it. It returns
// the examples held out without their image bytes. A run that stopped may be repeated: pairs published twice count once.
func Produce(ctx context.Context, paths []string, o ProduceOptions, publish func(Message) error) (Summary, []shard.Example, error) {
	if o.Lanes < 1 {
		return Summary{}, nil, fmt.Errorf("producing pairs: %d lanes, want at least 1", o.Lanes)
	}
	p := &producer{o: o, publish: publish, sum: Summary{PerLane: make([]int, o.Lanes)}}
	if err := p.holdOut(ctx, paths); err != nil {
		return p.sum, nil, err
	}
	totals, err := shard.Scan(ctx, paths, shard.Visitor{Example: p.example, Problem: p.problem})
	p.sum.Scan = totals
	if err == nil && o.Final {
		err = p.seal()
	}
	if err != nil {
		return p.sum, nil, fmt.Errorf("producing pairs: %w", err)
	}
	return p.sum, p.examples, nil
}

type producer struct {
	o        ProduceOptions
	publish  func(Message) error
	sum      Summary
	heldOut  *shard.HeldOut
	examples []shard.Example // held out
}

// holdOut chooses the images for evaluation in a scan of its own. It does not choose images that cannot be decoded. They
// become dead letters, and would make an evaluation fail.
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
			if _, err := imaging.Decode(ex.Encoded); err == nil {
				p.heldOut.Add(ex.ImageID)
				readable++
			}
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // the second scan reports them
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

func (p *producer) example(ex shard.Example) error {
	if p.heldOut.Has(ex.ImageID) {
		ex.Encoded = nil
		p.examples = append(p.examples, ex)
		p.sum.HeldOutImages = p.heldOut.Len()
		p.sum.HeldOutPairs += len(ex.Captions)
		return nil
	}
	for _, pair := range shard.Pairs(ex) {
		value, err := schemas.Marshal(pair)
		if err != nil {
			return fmt.Errorf("key %q: %w", ex.Key, err)
		}
		p.sum.Pairs++
		if err := p.send(pair.ID.Lane(p.o.Lanes), schemas.SchemaPair, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) problem(pr shard.Problem) error {
	value, err := pr.Record()
	if err != nil {
		return err
	}
	p.sum.Problems++
	return p.send(pr.ID().Lane(p.o.Lanes), schemas.SchemaPair, value)
}

func (p *producer) seal() error {
	value, err := schemas.Marshal(&schemas.Seal{Final: true})
	if err != nil {
		return err
	}
	for lane := range p.o.Lanes {
		p.sum.Seals++
		if err := p.send(lane, schemas.SchemaSeal, value); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) send(lane int, schema string, value []byte) error {
	p.sum.Messages++
	p.sum.PerLane[lane]++
	return p.publish(Message{Lane: lane, Schema: schema, Value: value})
}
