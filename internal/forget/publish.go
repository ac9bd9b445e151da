package forget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Found counts what the log leads to from what was asked for.
type Found struct {
	Asked, Images, Pairs int
}

// Publish takes back what keys name, and everything that the log knows to show the same images. Once it returns, every
// process that opens a [Set] knows. A pair that retention has removed leads to no image: it is taken back alone.
func Publish(ctx context.Context, log *stream.Log, keys []Key, now time.Time) (Found, error) {
	notes := make(map[Key]Note)
	for _, k := range keys {
		notes[k] = Note{Time: now.UTC()}
	}
	found := Found{Asked: len(notes)}
	if err := spread(ctx, log, notes, now); err != nil {
		return found, err
	}
	p := log.NewPublisher(stream.PublisherOptions{Name: "forget"})
	for k, n := range notes {
		switch {
		case n.By == "":
		case k.Kind == Image:
			found.Images++
		case k.Kind == Pair:
			found.Pairs++
		}
		if err := p.Note(ctx, schemas.Forgotten, k.String(), n); err != nil {
			return found, errors.Join(fmt.Errorf("publishing tombstone %s: %w", k, err), p.Close(ctx))
		}
	}
	return found, p.Close(ctx)
}

// spread reads the pairs of the log twice: what leads to images, and then which pairs show these.
func spread(ctx context.Context, log *stream.Log, notes map[Key]Note, now time.Time) error {
	asked := func(k Key) bool { _, ok := notes[k]; return ok }
	add := func(k, by Key) {
		if !asked(k) {
			notes[k] = Note{Time: now.UTC(), By: by.String()}
		}
	}
	err := eachPair(ctx, log, func(pair schemas.PairID, image schemas.ImageID, address string) {
		for _, k := range []Key{SourceKey(address), {Pair, pair}} {
			if n, ok := notes[k]; ok && n.By == "" {
				add(Key{Image, image}, k)
			}
		}
	})
	if err != nil {
		return err
	}
	return eachPair(ctx, log, func(pair schemas.PairID, image schemas.ImageID, _ string) {
		if by := (Key{Image, image}); asked(by) {
			add(Key{Pair, pair}, by)
		}
	})
}

// eachPair calls do for every pair that the log holds. Of embeddings the address is not known.
func eachPair(ctx context.Context, log *stream.Log, do func(pair schemas.PairID, image schemas.ImageID, address string)) error {
	for lane := range log.Config().Lanes {
		for _, topic := range []schemas.Topic{schemas.Pairs, schemas.Embeddings} {
			for rec, err := range log.Everything(ctx, topic, lane) {
				if err != nil {
					return fmt.Errorf("looking for pairs in %s, lane %d: %w", topic, lane, err)
				}
				record, err := schemas.Unmarshal(rec.Schema, rec.Value)
				if err != nil {
					continue // set aside by its stage
				}
				switch r := record.(type) {
				case *schemas.Pair:
					do(r.ID, r.ImageID, r.Source)
				case *schemas.Embedding:
					do(r.ID, r.ImageID, "")
				}
			}
		}
	}
	return nil
}
