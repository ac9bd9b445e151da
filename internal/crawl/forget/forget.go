// Package forget removes images from use, on request, together with everything of the crawl that shows them.
//
// A tombstone names an image, an address or a pair. It is a note on a compacted topic, so it lives as long as the log.
// A [Set] holds a process's tombstones and follows the topic. Publish finds the images and pairs that the log holds for
// an address or a pair, and adds tombstones for them.
//
// Guarantees: an open Set has every tombstone that existed before, and soon gets those that follow. Tombstones are
// never removed. An address is kept as a hash, so that the log does not reveal it.
//
// The package decides nothing: the encoder refuses forgotten pairs, the cache of images does not serve forgotten
// images, and live search and the console omit them. Their records say so, and the first record of a position counts.
package forget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// The kinds of tombstones.
const (
	Image  = "image"  // an image id
	Pair   = "pair"   // a pair id
	Source = "source" // the first 16 bytes of the SHA-256 of an address
)

// Key is the subject of a tombstone.
type Key struct {
	Kind string
	ID   [16]byte
}

func (k Key) String() string { return k.Kind + "/" + hex.EncodeToString(k.ID[:]) }

// ParseKey reads the output of [Key.String].
func ParseKey(text string) (Key, error) {
	kind, digits, _ := strings.Cut(text, "/")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != 16 || kind != Image && kind != Pair && kind != Source {
		return Key{}, fmt.Errorf("tombstone %.80q: want image/, pair/ or source/ and 32 hexadecimal digits", text)
	}
	return Key{kind, [16]byte(raw)}, nil
}

// SourceKey names an address.
func SourceKey(address string) Key {
	sum := sha256.Sum256([]byte(address))
	return Key{Source, [16]byte(sum[:16])}
}

// Note is the value of a tombstone.
type Note struct {
	Time time.Time `json:"time"`
	By   string    `json:"by,omitempty"` // key of the requested tombstone that this one follows from
}

// Set holds a process's tombstones. It is safe for concurrent use.
type Set struct {
	log *stream.Log

	mu   sync.RWMutex
	keys map[Key]bool
	at   stream.Position // of the next note
	is   bool            // the topic exists
}

// Open reads the existing tombstones. A log older than the topic has none.
func Open(ctx context.Context, log *stream.Log) (*Set, error) {
	s := &Set{log: log, keys: make(map[Key]bool)}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Refresh reads new tombstones.
func (s *Set) Refresh(ctx context.Context) error {
	s.mu.RLock()
	at, is := s.at, s.is
	s.mu.RUnlock()
	if !is {
		found, err := s.log.Has(ctx, schemas.Forgotten)
		if err != nil || !found {
			return err
		}
	}
	var keys []Key
	for rec, err := range s.log.Records(ctx, schemas.Forgotten, 0, at, -1) {
		if err != nil {
			return fmt.Errorf("reading the forgotten pairs: %w", err)
		}
		at = rec.Next()
		if key, err := ParseKey(string(rec.Key)); err == nil {
			keys = append(keys, key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.is = at, true
	for _, k := range keys {
		s.keys[k] = true
	}
	return nil
}

// followEvery is the time between two reads of the topic.
const followEvery = time.Second

// Run follows the topic until ctx ends. It reports errors to failed and then tries again.
func (s *Set) Run(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

func (s *Set) has(k Key) bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[k]
}

// Image reports whether an image is forgotten. A nil set holds nothing.
func (s *Set) Image(id schemas.ImageID) bool { return s.has(Key{Image, id}) }

// Pair reports whether a pair is known to be forgotten.
func (s *Set) Pair(id schemas.PairID) bool { return s.has(Key{Pair, id}) }

// Source reports whether an address is forgotten.
func (s *Set) Source(address string) bool { return address != "" && s.has(SourceKey(address)) }

// Crawled reports whether a pair of the crawl is forgotten, by its image, its address or itself.
func (s *Set) Crawled(p *schemas.Pair) bool {
	return s.Image(p.ImageID) || s.Pair(p.ID) || s.Source(p.Source)
}

// Keys lists the keys of all tombstones, in no order.
func (s *Set) Keys() []Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Key, 0, len(s.keys))
	for k := range s.keys {
		out = append(out, k)
	}
	return out
}

// Found counts the requested keys, and the images and pairs that they lead to.
type Found struct {
	Asked, Images, Pairs int
}

// Publish forgets the subjects of keys, and everything in the log that is known to show the same images. Once it
// returns, every process that opens a [Set] knows. A pair that retention has removed leads to no image: it is forgotten
// alone.
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

// TakeOver takes over the tombstones of other namespaces of the same brokers, and returns the number of new ones.
// Images found there by an address or a pair have their own tombstones here.
func TakeOver(ctx context.Context, log *stream.Log, namespaces []string, now time.Time) (int, error) {
	raw, err := log.TombstonesOf(ctx, namespaces)
	if err != nil {
		return 0, err
	}
	notes := make(map[Key]Note)
	for text := range raw {
		if key, err := ParseKey(text); err == nil {
			notes[key] = Note{Time: now.UTC()}
		}
	}
	if err := spread(ctx, log, notes, now); err != nil {
		return 0, err
	}
	encoded := make(map[string][]byte)
	for k, n := range notes {
		if encoded[k.String()], err = json.Marshal(n); err != nil {
			return 0, fmt.Errorf("encoding tombstone %s: %w", k, err)
		}
	}
	return log.AddTombstones(ctx, encoded)
}

// spread reads the pairs of the log twice: first to find the images of the keys, then to find the pairs that show
// these.
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

// eachPair calls do for every pair in the log. Embeddings have no address.
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
