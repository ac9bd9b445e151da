// Package rerun runs the stages of a finished run again in another namespace, and compares their records with the
// original's. Package replay has the manifest and the comparison.
package rerun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"

	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// Options hold the namespace, the folders and the changed settings of a replay.
type Options struct {
	Namespace, Checkpoints, Dir string
	Set                         []string
	Patience                    time.Duration
	WithoutTrainer              bool
}

// Run replays a manifest.
func (o Options) Run(ctx context.Context, m *replay.Manifest, progress io.Writer) (*replay.Report, error) {
	p, environ, err := o.settings(m, progress)
	if err != nil {
		return nil, err
	}
	cfg := p.Stream
	cfg.Namespace = m.Namespace
	original, closeOriginal, err := rundir.OpenExisting(ctx, cfg, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := o.leaveRunEnv(p.Stream, environ); err != nil {
		return nil, errors.Join(err, closeOriginal())
	}
	rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
	p.Stream.Brokers = original.Config().Brokers
	report, err := o.replay(ctx, m, original, p, rt, progress)
	return report, errors.Join(err, closeOriginal())
}

// leaveRunEnv writes the settings of the replay to run.env if the log is in the folder of --data. It keeps an existing
// file, which belongs to this replay, or to a run in the same namespace, which is refused later.
func (o Options) leaveRunEnv(cfg stream.Config, environ map[string]string) error {
	_, err := os.Stat(rundir.EnvFile(o.Dir, o.Namespace))
	if len(cfg.Brokers) > 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return pipeline.LeaveSettings(o.Dir, cfg, environ)
}

// settings returns the settings of the replay, and the environment from which they were parsed.
func (o Options) settings(m *replay.Manifest, warn io.Writer) (pipeline.Settings, map[string]string, error) {
	place := replay.Place{Namespace: o.Namespace, Checkpoints: o.Checkpoints, Overrides: make(map[string]string)}
	if o.Namespace == "" {
		return pipeline.Settings{}, nil, errors.New("--namespace is empty, want a prefix for the replay's topics")
	}
	if place.Checkpoints == "" {
		place.Checkpoints = filepath.Join(o.Dir, "replay", o.Namespace)
	}
	for _, s := range o.Set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return pipeline.Settings{}, nil, fmt.Errorf("--set is %q, want NAME=VALUE", s)
		}
		place.Overrides[name] = value
	}
	environ, warnings := m.Environ(config.Settings(pipeline.Settings{}), config.Environ(), place)
	for _, w := range warnings {
		fmt.Fprintf(warn, "warning: %s\n", w)
	}
	if environ["LOG_LEVEL"] == "" {
		environ["LOG_LEVEL"] = "warn"
	}
	p, err := config.Parse[pipeline.Settings](environ)
	p.Stream.TraceEndpoint = "" // the traces of these pairs belong to the original
	return p, environ, err
}

func (o Options) replay(ctx context.Context, m *replay.Manifest, original *stream.Log, p pipeline.Settings, rt service.Runtime, progress io.Writer) (*replay.Report, error) {
	log, err := stream.Connect(ctx, p.Stream, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := log.EnsureTopics(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "replaying %d lanes as %s, checkpoints in %s\n", m.Lanes, o.Namespace, p.Trainer.Dir)
	if err := followOrder(ctx, original, log, p.Trainer, progress); err != nil {
		return nil, err
	}
	gone, err := m.FollowWeights(ctx, log, p.Trainer.Dir, o.WithoutTrainer)
	if err != nil {
		return nil, err
	}
	for _, path := range gone {
		fmt.Fprintf(progress, "%s is gone: the encoder waits until the replay's trainer has made it again\n", display.Printable(path))
	}
	if err := m.FollowAsked(ctx, log); err != nil {
		return nil, err
	}
	if err := m.FollowJudgements(ctx, log); err != nil {
		return nil, err
	}
	return replay.Run(ctx, replay.Options{
		Manifest: m, Original: original, Replayed: log, Patience: o.Patience, Trains: !o.WithoutTrainer,
		Stages: func(ctx context.Context) error {
			return pipeline.Run(ctx, log, rt, p, pipeline.NewStages(), o.WithoutTrainer)
		},
		Progress: func(now []replay.Progress) {
			var parts []string
			for _, t := range now {
				parts = append(parts, fmt.Sprintf("%s %s/%s", t.Topic, inspect.Count(t.Done), inspect.Count(t.Wanted)))
			}
			fmt.Fprintf(progress, "equal so far: %s\n", strings.Join(parts, ", "))
		},
		Differs: func(r replay.Result) {
			fmt.Fprintf(progress, "%s, lane %d differs at %s\n", r.Topic, r.Lane, r.Differs)
		},
	})
}

// followOrder makes the replay's trainer take its lanes in the original's order, if that order depended on the arrival
// of batches.
func followOrder(ctx context.Context, original, replayed *stream.Log, s trainerservice.Settings, progress io.Writer) error {
	if s.Order != trainerservice.Arrival {
		return nil
	}
	steps, err := trainerservice.CopyOrder(ctx, original, replayed, s.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "taking lanes in the order of the original's %d steps\n", steps)
	return nil
}
