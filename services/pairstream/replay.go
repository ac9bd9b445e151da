//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/process/service"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

func newRunManifestCommand() *cobra.Command {
	var out, env string
	var open bool
	cmd := &cobra.Command{
		Use: "run-manifest",
		Long: "Writes what `pairstream replay` needs to run a run again. The settings are taken from the environment and, where it\n" +
			"sets nothing, from the run.env that `pairstream up` and `pairstream demo` leave in the folder of --data, or from\n" +
			"the file of --env. Secrets and connections are left out.",
		Args: cobra.NoArgs,
	}
	dir := dataFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		environ, err := environIn(*dir)
		if env != "" {
			environ, err = environOf(env)
		}
		if err != nil {
			return err
		}
		settings, err := runSettings(environ)
		if err != nil {
			return err
		}
		cfg, err := config.Parse[stream.Config](environ)
		if err != nil {
			return err
		}
		log, closeLog, err := openExisting(cmd.Context(), cfg, *dir)
		if err != nil {
			return err
		}
		m, err := replay.Describe(cmd.Context(), log, replay.DescribeOptions{Settings: settings, Open: open})
		if err = errors.Join(err, closeLog()); err != nil {
			return err
		}
		if env == "" {
			changes, err := changesIn(runEnvFile(*dir, cfg.Namespace))
			if err != nil {
				return err
			}
			m.Changed = append(m.Changed, changes...)
		}
		for _, change := range m.Changed {
			fmt.Fprintf(cmd.ErrOrStderr(), "the run changed between two starts, and a replay repeats only what came last: %s\n", display.Printable(change))
		}
		return writeManifest(m, out, cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "file to write; empty: print it")
	f.StringVar(&env, "env", "", "file of settings, NAME=VALUE a line; those of the environment go first")
	f.BoolVar(&open, "open", false, "describe a run that has not ended, as far as it has come")
	return cmd
}

func writeManifest(m *replay.Manifest, path string, stdout io.Writer) error {
	if path == "" {
		return m.Write(stdout)
	}
	write := atomicfile.Write
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		write = inPlace // a pipe, or /dev/stdout
	}
	if err := write(path, 0o644, m.Write); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	_, err := fmt.Fprintf(stdout, "wrote %s: %d lanes, seed %s, models %s\n", path, m.Lanes, m.Seed, fingerprints(m))
	return err
}

// inPlace writes a file that is none to be replaced.
func inPlace(path string, _ os.FileMode, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// fingerprints lists the fingerprints of the models, each with the topics that its model has written.
func fingerprints(m *replay.Manifest) string {
	var models []string
	topics := make(map[string][]string)
	for _, model := range m.Models {
		if topics[model.Fingerprint] == nil {
			models = append(models, model.Fingerprint)
		}
		topics[model.Fingerprint] = append(topics[model.Fingerprint], string(model.Topic))
	}
	for i, name := range models {
		models[i] = fmt.Sprintf("%s (%s)", name, strings.Join(topics[name], ", "))
	}
	return strings.Join(models, ", ")
}

// runSettings returns what a replay needs to know of the settings of a run, those that come from its recipe included.
func runSettings(environ map[string]string) (map[string]string, error) {
	environ, err := recipe.Overlay(environ)
	if err != nil {
		return nil, err
	}
	return replay.Settings(config.Settings(pipeline{}), environ), nil
}

// leaveRunEnv writes the settings of a run into the folder of its log.
func leaveRunEnv(dir string, cfg stream.Config, environ map[string]string, changes ...string) error {
	settings, err := runSettings(environ)
	if err != nil {
		return err
	}
	settings["LANES"] = strconv.Itoa(cfg.Lanes)
	if cfg.Namespace != "" {
		settings["NAMESPACE"] = cfg.Namespace
	}
	return writeRunEnv(dir, cfg.Namespace, settings, changes...)
}

// leaveChanges leaves the settings of a start, and notes which differ from those of the start before it. Before
// anything was encoded nothing was made with them.
func leaveChanges(ctx context.Context, log *stream.Log, dir string, cfg stream.Config, environ map[string]string) error {
	now, err := runSettings(environ)
	if err != nil {
		return err
	}
	before, err := runEnvIn(runEnvFile(dir, cfg.Namespace))
	if err != nil {
		return err
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := before[name]; ok && was != now[name] {
			changes = append(changes, fmt.Sprintf("%s was %q and became %q", name, was, now[name]))
		}
	}
	if len(changes) > 0 && nothingEncoded(ctx, log) {
		changes = nil
	}
	return leaveRunEnv(dir, cfg, environ, changes...)
}

// replayOptions are the flags of `pairstream replay`.
type replayOptions struct {
	namespace, checkpoints, dir string
	set                         []string
	patience                    time.Duration
	json                        bool
	withoutTrainer              bool
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use: "replay MANIFEST",
		Long: "Copies the pairs of a manifest to topics of their own, runs all stages on them in this process with the settings\n" +
			"of the manifest, and compares what they write with the original: equal, or the first record that differs. The\n" +
			"original is only read. An interrupted replay goes on when it is started again.",
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := replay.ReadManifest(args[0])
			if err != nil {
				return err
			}
			err = o.run(cmd.Context(), m, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil && cmd.Context().Err() != nil {
				return errors.New("interrupted; the same command goes on")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.namespace, "namespace", "", "prefix of the replay's topics")
	f.StringVar(&o.checkpoints, "checkpoints", "", "folder of the replay's checkpoints; empty: replay/NAMESPACE in --data")
	f.StringArrayVar(&o.set, "set", nil, "NAME=VALUE: a setting that differs from the manifest, such as a file that was moved")
	f.DurationVar(&o.patience, "patience", 10*time.Minute, "how long to wait for a next record before the replay counts as stopped")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.withoutTrainer, "without-trainer", false, withoutTrainerUsage)
	f.StringVar(&o.dir, "data", defaultData, dataUsage)
	return cmd
}

// run replays a manifest. It returns an error if lanes differ.
func (o replayOptions) run(ctx context.Context, m *replay.Manifest, out, progress io.Writer) error {
	p, environ, err := o.settings(m, progress)
	if err != nil {
		return err
	}
	cfg := p.Stream
	cfg.Namespace = m.Namespace
	original, closeOriginal, err := openExisting(ctx, cfg, o.dir)
	if err != nil {
		return err
	}
	if err := o.leaveRunEnv(p.Stream, environ); err != nil {
		return errors.Join(err, closeOriginal())
	}
	rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
	p.Stream.Brokers = original.Config().Brokers
	report, err := o.replay(ctx, m, original, p, rt, progress)
	if err = errors.Join(err, closeOriginal()); err != nil {
		return err
	}
	if o.json {
		err = printJSON(out, report)
	} else {
		err = report.Print(out)
	}
	return errors.Join(err, report.Err())
}

// leaveRunEnv leaves the settings of the replay beside a log in the folder of --data. It keeps a file that is there.
// The file is this replay's, or that of a run in the same namespace, which is refused later.
func (o replayOptions) leaveRunEnv(cfg stream.Config, environ map[string]string) error {
	_, err := os.Stat(runEnvFile(o.dir, o.namespace))
	if len(cfg.Brokers) > 0 || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return leaveRunEnv(o.dir, cfg, environ)
}

// settings returns the settings of the replay, and the environment that they are read from.
func (o replayOptions) settings(m *replay.Manifest, warn io.Writer) (pipeline, map[string]string, error) {
	place := replay.Place{Namespace: o.namespace, Checkpoints: o.checkpoints, Overrides: make(map[string]string)}
	if o.namespace == "" {
		return pipeline{}, nil, errors.New("--namespace is empty, want a prefix for the replay's topics")
	}
	if place.Checkpoints == "" {
		place.Checkpoints = filepath.Join(o.dir, "replay", o.namespace)
	}
	for _, s := range o.set {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return pipeline{}, nil, fmt.Errorf("--set is %q, want NAME=VALUE", s)
		}
		place.Overrides[name] = value
	}
	environ, warnings := m.Environ(config.Settings(pipeline{}), config.Environ(), place)
	for _, w := range warnings {
		fmt.Fprintf(warn, "warning: %s\n", w)
	}
	if environ["LOG_LEVEL"] == "" {
		environ["LOG_LEVEL"] = "warn"
	}
	p, err := config.Parse[pipeline](environ)
	p.Stream.TraceEndpoint = "" // the original's traces are those of its pairs
	return p, environ, err
}

func (o replayOptions) replay(ctx context.Context, m *replay.Manifest, original *stream.Log, p pipeline, rt service.Runtime, progress io.Writer) (*replay.Report, error) {
	log, err := stream.Connect(ctx, p.Stream, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := log.EnsureTopics(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "replaying %d lanes as %s, checkpoints in %s\n", m.Lanes, o.namespace, p.Trainer.Dir)
	if err := followOrder(ctx, original, log, p.Trainer, progress); err != nil {
		return nil, err
	}
	gone, err := m.FollowWeights(ctx, log, p.Trainer.Dir, o.withoutTrainer)
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
		Manifest: m, Original: original, Replayed: log, Patience: o.patience, Trains: !o.withoutTrainer,
		Stages: func(ctx context.Context) error { return runPipeline(ctx, log, rt, p, newStages(), o.withoutTrainer) },
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

// followOrder lets the replay's trainer take its lanes in the order of the original's, where that order depended on
// when batches arrived.
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
