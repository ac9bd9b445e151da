package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// A lane is cut into spans. Within a span the rules of FILTER stay the same, and the weights if the encoder follows the
// trainer. A span ends at a seal, or after as many embeddings as a group has pairs. Every mark holds the rules and
// weights of its span, so a new owner continues with them even if its own settings differ.
//
// A span gets the weights that the trainer announced last before the span's first pair. That moment is chance, so the
// choice is noted in the log before use (package internal/log/weights). A new owner, a paused one and a replay find it
// there. The indexer closes its group where the weights change. That group is smaller than a span by the span's
// repeated pairs, which only the indexer knows.

// span is a part of a lane with the same weights and rules.
type span struct {
	From    int64  `json:"from"`             // seq of its first record
	Records int64  `json:"records"`          // so far
	Pairs   int    `json:"pairs"`            // of these: embeddings
	Size    int    `json:"size,omitempty"`   // embeddings after which it ends; 0: no pair has come, or an older encoder began it
	Filter  string `json:"filter,omitempty"` // its rules
	Model   string `json:"model,omitempty"`  // fingerprint of the weights; empty: the lane does not follow the trainer
}

// weightSource chooses and opens weights that the trainer has published.
type weightSource interface {
	choose(ctx context.Context, lane int, seq int64) (fingerprint string, err error)
	open(ctx context.Context, lane int, fingerprint string) (embedder, error)
	close(fingerprint string) // once for every open
}

// spans holds the span of a lane, and the settings of the next one.
type spans struct {
	lane    int
	size    int          // embeddings
	filter  string       // rules
	weights weightSource // nil: the lane does not follow the trainer
	at      span
	located bool   // at.From is known
	opened  string // fingerprint of the weights that are open; empty: none
}

// locate finds the start of the lane's span if it is unknown: the lane is new, or an older encoder wrote it. Call it
// only when nothing is held back.
func (p *spans) locate(rec stream.Record, out stream.Output) {
	if p.located {
		return
	}
	p.located = true
	if p.at != (span{}) {
		return
	}
	for _, s := range out.Before(rec, nil).Seqs {
		if s.Topic == schemas.Embeddings {
			p.at.From = s.Seq
		}
	}
}

// seal ends the span with a seal, which is the record at hand.
func (p *spans) seal(rec stream.Record, out stream.Output) {
	p.locate(rec, out)
	p.at = span{From: p.at.From + p.at.Records + 1}
}

// over reports whether the next pair begins a span.
func (p *spans) over() bool {
	full := p.at.Size > 0 && p.at.Pairs >= p.at.Size
	return full || (p.weights != nil) != (p.at.Model != "") // the lane begins to follow the trainer, or ends
}

// enter gives the stage the rules and the weights of the span of the pair at hand.
func (s *stage) enter(ctx context.Context, rec stream.Record, out stream.Output) error {
	p := s.spans
	p.locate(rec, out)
	at := p.at
	if p.over() {
		if err := s.Flush(ctx, out); err != nil { // with the rules and weights of the last span
			return err
		}
		at = span{From: p.at.From + p.at.Records}
	}
	if at.Size == 0 {
		at.Size, at.Filter = p.size, p.filter
	}
	if p.weights != nil && at.Model == "" {
		var err error
		if at.Model, err = p.weights.choose(ctx, p.lane, at.From); err != nil {
			return err
		}
	}
	p.at = at
	if err := s.takeRules(); err != nil {
		return err
	}
	return s.takeWeights(ctx)
}

// takeRules makes sure that the sieve has the rules of the span.
func (s *stage) takeRules() (err error) {
	s.sieve, err = s.sieve.with(s.spans.at.Filter)
	return err
}

// takeWeights makes sure that core has the weights of the span.
func (s *stage) takeWeights(ctx context.Context) error {
	p := s.spans
	if p.at.Model == p.opened {
		return nil
	}
	p.close()
	core, err := p.weights.open(ctx, p.lane, p.at.Model)
	if err != nil {
		return err
	}
	s.core, p.opened = core, p.at.Model
	return nil
}

// room returns how many pairs may be embedded at once: a batch, or the rest of the span.
func (p *spans) room(batch int) int { return min(batch, p.at.Size-p.at.Pairs) }

// count takes the record of a pair into the span.
func (p *spans) count(r schemas.Record) {
	p.at.Records++
	if _, ok := r.(*schemas.Embedding); ok {
		p.at.Pairs++
	}
}

// close gives the weights back.
func (p *spans) close() {
	if p.opened != "" {
		p.weights.close(p.opened)
		p.opened = ""
	}
}

// spanned begins the state of a lane. The state of a spool never begins with it. Older encoders wrote only the spool's
// state for lanes that do not follow the trainer. The state of a spool without a tar is empty.
const spanned = "\x00follow"

// spooled is the state of a lane.
type spooled struct {
	span
	Spool []byte `json:"spool,omitempty"`
}

// state adds the span to the state of the spool.
func (p *spans) state(spool []byte) []byte {
	raw, err := json.Marshal(spooled{p.at, spool})
	if err != nil {
		panic(err) // numbers and texts always have a form
	}
	return append([]byte(spanned), raw...)
}

// parseState splits the state of a lane.
func parseState(state []byte) (span, []byte, error) {
	raw, ok := bytes.CutPrefix(state, []byte(spanned))
	if !ok {
		return span{}, state, nil
	}
	var s spooled
	if err := json.Unmarshal(raw, &s); err != nil {
		return span{}, nil, fmt.Errorf("reading the place of an encoder's lane: %w", err)
	}
	return s.span, s.Spool, nil
}

// chooseFrom chooses weights by the notes in the log.
func chooseFrom(ctx context.Context, log *stream.Log, lane int, seq int64) (string, error) {
	fingerprint, err := weights.Choose(ctx, log, lane, seq)
	if errors.Is(err, weights.ErrNone) {
		return "", stream.NotYet(fmt.Errorf("weights, as ENCODER_CHECKPOINT is %s: %w: start the trainer, which publishes TRAIN_INIT or its last checkpoint when its own ENCODER_CHECKPOINT is %s", weights.Setting, err, weights.Setting))
	}
	if err != nil {
		return "", stream.Transient(fmt.Errorf("choosing weights for record %d of lane %d: %w", seq, lane, err))
	}
	return fingerprint, nil
}
