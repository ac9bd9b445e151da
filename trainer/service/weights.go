package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/internal/latest"
	"github.com/pairstream/pairstream/internal/stream"
)

// weightsOf is what publishing needs of a [trainer.Trainer].
type weightsOf interface {
	SaveWeights(ctx context.Context, path func(fingerprint string) string) (fingerprint string, err error)
	Steps() int64
}

// publishing publishes the weights of every checkpoint for an encoder that follows them. A nil one publishes nothing.
type publishing struct {
	core   weightsOf
	log    *stream.Log
	dir    string // of checkpoints
	logger *slog.Logger
}

// publish announces the weights that training has now, unless they were announced last. Their file is on the disk before
// that. Then it removes the files of weights that no lane of the encoder has chosen, except for the latest.
func (p *publishing) publish(ctx context.Context) error {
	if p == nil {
		return nil
	}
	fingerprint, err := p.core.SaveWeights(ctx, func(fingerprint string) string { return latest.File(p.dir, fingerprint) })
	if err != nil {
		return err
	}
	known, err := latest.Read(ctx, p.log)
	if err != nil {
		return err
	}
	if newest, _ := known.Newest(); newest.Fingerprint == fingerprint {
		return nil
	}
	w := latest.Weights{Fingerprint: fingerprint, Step: p.core.Steps(), File: latest.File(p.dir, fingerprint)}
	if w.SHA256, err = latest.Hash(w.File); err != nil {
		return err
	}
	if err := latest.Announce(ctx, p.log, w); err != nil {
		return fmt.Errorf("announcing the weights of step %d: %w", w.Step, err)
	}
	p.logger.Info("weights published for the encoder", "step", w.Step, "fingerprint", fingerprint, "path", w.File)
	stay, err := latest.Retire(ctx, p.log)
	if err != nil {
		return err
	}
	return latest.Prune(p.dir, stay)
}
