package judged

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Place is where a lane takes up what people have said, and what it is about.
type Place struct {
	Lane  int     `json:"lane"`
	Group int64   `json:"group"`
	Epoch int32   `json:"epoch"`
	Model string  `json:"model"` // fingerprint of Con-D
	Above float64 `json:"above"` // threshold of connections
}

// Count says how many connections people have judged, and what counts from a place on.
type Count struct {
	Place
	Judged int `json:"judged"`
	Right  int `json:"right"` // of these: matches
}

// counted begins the keys of the notes. Something that nobody else has follows.
const counted = "judgements/counted/"

// Notes are the notes of a log, as they were when it was read.
type Notes struct{ counts map[Place]Count }

// Read reads the notes of a log.
func Read(ctx context.Context, log *stream.Log) (*Notes, error) {
	n := &Notes{counts: make(map[Place]Count)}
	for rec, err := range log.Records(ctx, schemas.Control, 0, stream.Position{}, -1) {
		if err == nil && strings.HasPrefix(rec.Key(), counted) {
			err = n.add(rec.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the notes about judgements: %w", err)
		}
	}
	return n, nil
}

func (n *Notes) add(value []byte) error {
	var c Count
	if err := json.Unmarshal(value, &c); err != nil {
		return err
	}
	if _, there := n.counts[c.Place]; !there {
		n.counts[c.Place] = c
	}
	return nil
}

// At returns what counts at a place.
func (n *Notes) At(p Place) (Count, bool) {
	c, ok := n.counts[p]
	return c, ok
}

// All returns what counts everywhere, by place.
func (n *Notes) All() []Count {
	var all []Count
	for _, c := range n.counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Above, b.Above))
	})
	return all
}

// Take returns what counts at a place. Where nothing counts yet, it notes what people have said until now.
func Take(ctx context.Context, log *stream.Log, p Place) (Count, error) {
	for {
		n, err := Read(ctx, log)
		if err != nil {
			return Count{}, err
		}
		if c, ok := n.At(p); ok {
			return c, nil
		}
		c, err := tally(ctx, log, p)
		if err != nil {
			return Count{}, err
		}
		if err := Note(ctx, log, c); err != nil {
			return Count{}, err
		}
	}
}

// Note notes counts. Those of places that have one already change nothing.
func Note(ctx context.Context, log *stream.Log, counts ...Count) (err error) {
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, c := range counts {
		if err := p.Note(ctx, schemas.Control, counted+rand.Text(), c); err != nil {
			return fmt.Errorf("noting what people say of connections: %w", err)
		}
	}
	return nil
}

// pair is what a judgement is about.
type pair struct{ image, text schemas.PairID }

// verdict is the latest one of a pair.
type verdict struct{ random, match bool }

// tally counts what the log holds of a place's Con-D, of all lanes: these are random samples of one crawl. A pair counts when
// it was judged as one of the random sample, and its latest verdict counts. What cannot be decoded is passed over.
func tally(ctx context.Context, log *stream.Log, p Place) (Count, error) {
	if found, err := log.Has(ctx, schemas.Judgements); err != nil || !found { // a log that is older than the topic has none
		return Count{Place: p}, err
	}
	said := make(map[pair]verdict)
	for rec, err := range log.Records(ctx, schemas.Judgements, 0, stream.Position{}, -1) {
		if err != nil {
			return Count{}, fmt.Errorf("reading what people say of connections: %w", err)
		}
		r, err := schemas.Unmarshal(rec.Schema, rec.Value)
		j, ok := r.(*schemas.Judgement)
		if err != nil || !ok || j.Model != p.Model || j.Probability <= float32(p.Above) {
			continue
		}
		key := pair{j.Image, j.Text}
		if j.Verdict == schemas.VerdictNone {
			delete(said, key)
			continue
		}
		said[key] = verdict{said[key].random || j.Sample == schemas.SampleRandom, j.Verdict == schemas.VerdictMatch}
	}
	c := Count{Place: p}
	for _, v := range said {
		if !v.random {
			continue
		}
		c.Judged++
		if v.match {
			c.Right++
		}
	}
	return c, nil
}
