package rerun

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
)

// Describe returns the manifest of the run in the log of KAFKA_BROKERS, or in dir. It takes the settings from the file
// env, or from the run.env in dir. With open, the run may still be going on.
func Describe(ctx context.Context, dir, env string, open bool) (*replay.Manifest, error) {
	environ, err := rundir.EnvironIn(dir)
	if env != "" {
		environ, err = rundir.EnvironOf(env)
	}
	if err != nil {
		return nil, err
	}
	settings, err := pipeline.ReplaySettings(environ)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse[stream.Config](environ)
	if err != nil {
		return nil, err
	}
	log, closeLog, err := rundir.OpenExisting(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	m, err := replay.Describe(ctx, log, replay.DescribeOptions{Settings: settings, Open: open})
	if err = errors.Join(err, closeLog()); err != nil {
		return nil, err
	}
	if env == "" {
		changes, err := rundir.ChangesIn(rundir.EnvFile(dir, cfg.Namespace))
		if err != nil {
			return nil, err
		}
		m.Changed = append(m.Changed, changes...)
	}
	return m, nil
}
