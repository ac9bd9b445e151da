package main

import (
	"context"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/schemas"
)

// preview implements [dataset.Ledger] for a look at what would be published. It shows the first pairs.
type preview struct {
	dataset.Ledger
	show func(*schemas.Pair)
}

// Note implements [dataset.Ledger].
func (preview) Note(context.Context, []dataset.SourceNote) error { return nil }

// Publish implements [dataset.Ledger].
func (p preview) Publish(_ context.Context, m dataset.Message) error {
	if r, err := schemas.Unmarshal(m.Schema, m.Value); err == nil {
		if pair, ok := r.(*schemas.Pair); ok {
			p.show(pair)
		}
	}
	return nil
}
