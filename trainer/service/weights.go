package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/internal/latest"
	"github.com/pairstream/pairstream/internal/stream"
)

// weightsOf is what publishing needs of a [trainer.Snapshot].
type weightsOf interface {
	SaveWeights(path func(fingerprint string) string) (fingerprint string, err error)
	Steps() int64
}

// publishing publishes the weights of every checkpoint for an encoder that follows them. A nil one publishes nothing.
type publishing struct {
	log    *stream.Log
	dir    string // of checkpoints
	logger *slog.Logger
	wanted map[int64][]string // fingerprints that a replay's encoder waits for, by step
}

// begin learns which weights are waited for, and publishes those that training begins with. These may be those of a crash
// between a checkpoint and its announcement.
func (p *publishing) begin(ctx context.Context, now func(context.Context) (weightsOf, error)) error {
	if p == nil {
		return nil
	}
	known, err := latest.Read(ctx, p.log)
	if err != nil {
		return err
	}
	p.wanted = known.Wanted()
	s, err := now(ctx)
	if err != nil {
		return err
	}
	return p.publish(ctx, s)
}

// due says whether the weights of a step are waited for.
func (p *publishing) due(step int64) bool { return p != nil && len(p.wanted[step]) > 0 }

// publish announces weights, unless they were announced last. Their file is on the disk before that. Then it removes the
// files of weights that no lane of the encoder has chosen, except for the latest.
func (p *publishing) publish(ctx context.Context, of weightsOf) error {
	if p == nil {
		return nil
	}
	fingerprint, err := of.SaveWeights(func(fingerprint string) string { return latest.File(p.dir, fingerprint) })
	if err != nil {
		return err
	}
	for _, want := range p.wanted[of.Steps()] {
		if want != fingerprint {
			return fmt.Errorf("the weights of step %d are %s, and the encoder waits for %s, whose file is gone: this training does not repeat the one that made it; put the file of the original into %s",
				of.Steps(), fingerprint, want, latest.Folder(p.dir))
		}
	}
	known, err := latest.Read(ctx, p.log)
	if err != nil {
		return err
	}
	if newest, _ := known.Newest(); newest.Fingerprint == fingerprint {
		return nil
	}
	w := latest.Weights{Fingerprint: fingerprint, Step: of.Steps(), File: latest.File(p.dir, fingerprint)}
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
