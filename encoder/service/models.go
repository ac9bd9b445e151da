package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/model/model"
)

// models hold the weights that the lanes of this process follow. Lanes in spans of different weights have separate
// models. The most recently opened model answers queries, and stays loaded. It is safe for concurrent use.
type models struct {
	log  *stream.Log
	dir  string // of checkpoints
	load func(ctx context.Context, path string) (*model.Encoder, *encoder.Encoder, error)
	lend func(*model.Encoder)

	mu     sync.Mutex
	loaded map[string]*loaded
	newest string
}

type loaded struct {
	model *model.Encoder
	core  *encoder.Encoder
	lanes int
}

var _ weightSource = (*models)(nil)

func (m *models) choose(ctx context.Context, lane int, seq int64) (string, error) {
	return chooseFrom(ctx, m.log, lane, seq)
}

func (m *models) open(ctx context.Context, lane int, fingerprint string) (embedder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded[fingerprint] == nil {
		if err := m.add(ctx, lane, fingerprint); err != nil {
			return nil, err
		}
	}
	l := m.loaded[fingerprint]
	l.lanes++
	return l.core, nil
}

// add loads weights.
func (m *models) add(ctx context.Context, lane int, fingerprint string) error {
	path := weights.File(m.dir, fingerprint)
	network, core, err := m.load(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stream.NotYet(fmt.Errorf("the file %s with the weights of the trainer that lane %d goes on with: CHECKPOINT_DIR has to be the trainer's folder; put the file back, or set ENCODER_CHECKPOINT to a file of weights: a new group begins with those", path, lane))
	case err != nil:
		return fmt.Errorf("ENCODER_CHECKPOINT is %s: %w", weights.Setting, err)
	case network.Fingerprint() != fingerprint:
		err := fmt.Errorf("%s has the weights %s: it is not the file that the trainer has published; put that back", path, network.Fingerprint())
		network.Free()
		return err
	}
	if m.newest != "" {
		defer m.drop(m.newest)
	}
	m.loaded[fingerprint], m.newest = &loaded{model: network, core: core, lanes: 1}, fingerprint
	m.lend(network)
	return nil
}

func (m *models) close(fingerprint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(fingerprint)
}

// drop releases a lane's use of a model, and frees the model after the last use.
func (m *models) drop(fingerprint string) {
	l := m.loaded[fingerprint]
	if l.lanes--; l.lanes > 0 {
		return
	}
	delete(m.loaded, fingerprint)
	l.model.Free()
}

// free takes queries their model. All lanes are closed.
func (m *models) free() {
	m.lend(nil)
	if m.newest != "" {
		m.close(m.newest)
	}
}
