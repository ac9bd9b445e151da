package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/latest"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// A lane that follows the trainer takes weights for a span of its records, and never changes them within. A span ends
// after as many embeddings as a group has pairs, and with a seal. The weights of a span are those that the trainer has
// announced last when its first pair comes. That moment is chance, so the choice is noted in the log before it is used
// (package internal/latest). A new owner, one that is paused and a replay find it there.
//
// The indexer closes its group where the weights change. That group has fewer pairs by those that the span holds twice,
// which only the indexer knows.

// span is the part of a lane that is made with the same weights.
type span struct {
	From    int64  `json:"from"`            // seq of its first record
	Records int64  `json:"records"`         // so far
	Pairs   int    `json:"pairs"`           // of these: embeddings
	Model   string `json:"model,omitempty"` // fingerprint of the weights; empty: none are chosen yet
}

// weights chooses and opens what the trainer has published.
type weights interface {
	choose(ctx context.Context, lane int, seq int64) (fingerprint string, err error)
	open(ctx context.Context, lane int, fingerprint string) (embedder, error)
	close(fingerprint string) // once for every open
}

// follow is what a lane knows of the weights that it follows. All methods of a nil follow do nothing.
type follow struct {
	lane    int
	size    int // embeddings of a span
	weights weights
	at      span
	located bool   // at.From is known
	opened  string // fingerprint of the weights that are open; empty: none
}

// locate finds the lane's place when it has none yet: it is new, or has followed nobody so far. Nothing is held back then.
func (f *follow) locate(rec stream.Record, out stream.Output) {
	if f.located {
		return
	}
	f.located = true
	if f.at != (span{}) {
		return
	}
	for _, s := range out.Before(rec, nil).Seqs {
		if s.Topic == schemas.Embeddings {
			f.at.From = s.Seq
		}
	}
}

// seal ends the span with a seal, which is the record at hand.
func (f *follow) seal(rec stream.Record, out stream.Output) {
	if f != nil {
		f.locate(rec, out)
		f.at = span{From: f.at.From + f.at.Records + 1}
	}
}

// takeWeights makes sure that core has the weights of the pair at hand.
func (s *stage) takeWeights(ctx context.Context, rec stream.Record, out stream.Output) error {
	f := s.follow
	if f == nil {
		return nil
	}
	f.locate(rec, out)
	if f.at.Model == "" || f.at.Pairs >= f.size {
		if err := s.Flush(ctx, out); err != nil { // with the weights before
			return err
		}
		from := f.at.From + f.at.Records
		fingerprint, err := f.weights.choose(ctx, f.lane, from)
		if err != nil {
			return err
		}
		f.at = span{From: from, Model: fingerprint}
	}
	if f.at.Model != f.opened {
		f.close()
		core, err := f.weights.open(ctx, f.lane, f.at.Model)
		if err != nil {
			return err
		}
		s.core, f.opened = core, f.at.Model
	}
	return nil
}

// room returns how many pairs may be embedded at once: a batch, or what is left of the span.
func (f *follow) room(batch int) int {
	if f == nil {
		return batch
	}
	return min(batch, f.size-f.at.Pairs)
}

// count takes the record of a pair into the span.
func (f *follow) count(r schemas.Record) {
	if f == nil {
		return
	}
	f.at.Records++
	if _, ok := r.(*schemas.Embedding); ok {
		f.at.Pairs++
	}
}

// close gives the weights back.
func (f *follow) close() {
	if f != nil && f.opened != "" {
		f.weights.close(f.opened)
		f.opened = ""
	}
}

// following begins the state of a lane that follows the trainer. No state of a spool begins so: a spool that has no tar yet
// has no bytes.
const following = "\x00follow"

// followed is the state of a lane that follows the trainer.
type followed struct {
	span
	Spool []byte `json:"spool,omitempty"`
}

// state adds the span to the state of the spool.
func (f *follow) state(spool []byte) []byte {
	if f == nil {
		return spool
	}
	raw, err := json.Marshal(followed{f.at, spool})
	if err != nil {
		panic(err) // numbers and texts always have a form
	}
	return append([]byte(following), raw...)
}

// parseState splits the state of a lane. A lane that follows nobody has no span.
func parseState(state []byte) (span, []byte, error) {
	raw, ok := bytes.CutPrefix(state, []byte(following))
	if !ok {
		return span{}, state, nil
	}
	var s followed
	if err := json.Unmarshal(raw, &s); err != nil {
		return span{}, nil, fmt.Errorf("reading the place of an encoder's lane: %w", err)
	}
	return s.span, s.Spool, nil
}

// chooseFrom chooses weights by the notes in the log.
func chooseFrom(ctx context.Context, log *stream.Log, lane int, seq int64) (string, error) {
	fingerprint, err := latest.Choose(ctx, log, lane, seq)
	if errors.Is(err, latest.ErrNone) {
		err = fmt.Errorf("ENCODER_CHECKPOINT is %s: %w: start the trainer, which publishes TRAIN_INIT or its last checkpoint when its own ENCODER_CHECKPOINT is %s", latest.Setting, err, latest.Setting)
	}
	if err != nil {
		return "", stream.Transient(fmt.Errorf("choosing weights for record %d of lane %d: %w", seq, lane, err))
	}
	return fingerprint, nil
}
