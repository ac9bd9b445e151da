package pipeline

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/schemas"
)

// ReplaySettings returns the settings of a run that a replay needs, including those of its recipe.
func ReplaySettings(environ map[string]string) (map[string]string, error) {
	environ, err := recipe.Overlay(environ)
	if err != nil {
		return nil, err
	}
	return replay.Settings(config.Settings(Settings{}), environ), nil
}

// LeaveSettings writes the settings of a run to run.env in the folder of its log.
func LeaveSettings(dir string, cfg stream.Config, environ map[string]string, changes ...string) error {
	settings, err := ReplaySettings(environ)
	if err != nil {
		return err
	}
	settings["LANES"] = strconv.Itoa(cfg.Lanes)
	if cfg.Namespace != "" {
		settings["NAMESPACE"] = cfg.Namespace
	}
	return rundir.WriteEnv(dir, cfg.Namespace, settings, changes...)
}

// LeaveChanges writes the settings of a start to run.env, with a list of those that differ from the start before. It
// lists none while the log has no embedding, because no record depends on the earlier settings.
func LeaveChanges(ctx context.Context, log *stream.Log, dir string, cfg stream.Config, environ map[string]string) error {
	now, err := ReplaySettings(environ)
	if err != nil {
		return err
	}
	before, err := rundir.ReadEnv(rundir.EnvFile(dir, cfg.Namespace))
	if err != nil {
		return err
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := before[name]; ok && was != now[name] {
			changes = append(changes, fmt.Sprintf("%s was %q and became %q", name, was, now[name]))
		}
	}
	if len(changes) > 0 && NothingEncoded(ctx, log) {
		changes = nil
	}
	return LeaveSettings(dir, cfg, environ, changes...)
}

// NothingEncoded reports whether a log has no embedding. It returns false if the log cannot be read.
func NothingEncoded(ctx context.Context, log *stream.Log) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for lane := range log.Config().Lanes {
		if seq, err := log.LastSeq(ctx, schemas.Embeddings, lane); err != nil || seq >= 0 {
			return false
		}
	}
	return true
}

// Places returns the files and folders that settings name. A command must not empty a folder that contains one.
func Places(environ map[string]string) (found []ownedfolder.Place) {
	var seen []string
	for _, s := range config.Settings(Settings{}) {
		if slices.Contains(seen, s.Variable) {
			continue
		}
		seen = append(seen, s.Variable)
		for value := range strings.SplitSeq(environ[s.Variable], ",") {
			value = shard.LocalPath(strings.TrimSpace(value))
			if _, err := os.Stat(value); err == nil && !shard.IsRemote(value) {
				found = append(found, ownedfolder.Place{Setting: s.Variable, Path: value})
			}
		}
	}
	return found
}
