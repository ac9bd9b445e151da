package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/schemas"
)

// about describes a run to those who look at its curves. A tracker gets it as a line before the reports.
type about struct {
	Params   map[string]string `json:"params"`             // effective settings, without secrets and connections
	Tags     map[string]string `json:"tags"`               // version, commit, namespace, fingerprints of models
	Manifest string            `json:"manifest,omitempty"` // file of the run's manifest
}

// describe returns the description of the run in log: from its manifest, or else from the settings that `up` and `demo`
// leave in the folder of the log, and from the first records.
func (o Options) describe(ctx context.Context, log *stream.Log) (*about, error) {
	cfg := log.Config()
	tags := map[string]string{"namespace": cfg.Namespace, "version": version.String(), "commit": version.Commit()}
	if o.Manifest != "" {
		m, err := replay.ReadManifest(o.Manifest)
		if err != nil {
			return nil, fmt.Errorf("--manifest: %w", err)
		}
		if m.Namespace != cfg.Namespace {
			return nil, fmt.Errorf("--manifest is %q, which describes the namespace %q, and this run is of %q: give the run's own", o.Manifest, m.Namespace, cfg.Namespace)
		}
		params := maps.Clone(m.Settings)
		params["LANES"] = strconv.Itoa(m.Lanes)
		tags["version"], tags["commit"] = m.Pairstream, commitOf(m.Pairstream)
		for _, model := range m.Models {
			name := "model." + string(model.Topic)
			tags[name] = strings.TrimPrefix(tags[name]+", "+model.Fingerprint, ", ")
		}
		path, err := filepath.Abs(o.Manifest)
		return &about{params, tags, path}, err
	}
	params, err := rundir.ReadEnv(rundir.EnvFile(o.Dir, cfg.Namespace))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"RECIPE", "SEED"} {
		if v := os.Getenv(name); v != "" {
			params[name] = v
		}
	}
	if params["RECIPE"] != "" { // without, its defaults would be guesses about stages elsewhere
		if params, err = recipe.Overlay(params); err != nil {
			return nil, err
		}
	}
	delete(params, "NAMESPACE")
	params["LANES"] = strconv.Itoa(cfg.Lanes)
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Scored} {
		model, err := firstModel(ctx, log, topic)
		if err != nil {
			return nil, err
		}
		if model != "" {
			tags["model."+string(topic)] = model
		}
	}
	return &about{Params: params, Tags: tags}, nil
}

// commitOf returns the commit in the version of a development build.
func commitOf(v string) string {
	if commit, ok := strings.CutPrefix(v, "dev-"); ok {
		return commit
	}
	return "unknown"
}

// firstModel returns the fingerprint in the first record of a topic that has one; "" if there is none yet.
func firstModel(ctx context.Context, log *stream.Log, topic schemas.Topic) (string, error) {
	for lane := range log.Config().Lanes {
		for rec, err := range log.Records(ctx, topic, lane, stream.Position{}, -1) {
			if err != nil {
				return "", fmt.Errorf("reading %s: %w", topic, err)
			}
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err != nil {
				continue // the stage that reads it sets it aside
			}
			switch r := value.(type) {
			case *schemas.Embedding:
				return r.Model, nil
			case *schemas.ScoredBatch:
				return r.Model, nil
			}
		}
	}
	return "", nil
}

// write writes the line that a tracker reads.
func (a *about) write(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Kind string `json:"kind"`
		Step int64  `json:"step"`
		*about
	}{"run", 0, a})
}
