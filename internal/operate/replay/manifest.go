package replay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/schemas"
)

// manifestVersion changes when a manifest cannot be read as before.
const manifestVersion = 1

// Manifest describes a run.
type Manifest struct {
	Version    int               `json:"version"`
	Pairstream string            `json:"pairstream"` // informative: the program that wrote the manifest
	Namespace  string            `json:"namespace"`
	Lanes      int               `json:"lanes"`
	Seed       string            `json:"seed"`
	Settings   map[string]string `json:"settings"`          // effective values; no secrets, nothing about connections
	Models     []Model           `json:"models"`            // fingerprints of the models whose results are in the records
	Weights    []weights.Weights `json:"weights,omitempty"` // the files that an encoder which followed the trainer has used
	Choices    []weights.Choice  `json:"choices,omitempty"` // from where on each lane has used them
	Judged     []feedback.Count  `json:"judged,omitempty"`  // what people had said of connections, from where on it counts
	Asked      []scope.Choice    `json:"asked,omitempty"`   // which closed groups each group has asked, where it might ask those of all lanes
	Pairs      []Range           `json:"pairs"`             // by lane
	Topics     []Topic           `json:"topics"`
	Course     *compare.Course   `json:"course,omitempty"` // what came of it, for people; nil: an older version wrote the manifest
}

// Model is a model that left its fingerprint in the records of a topic.
type Model struct {
	Topic       schemas.Topic `json:"topic"`
	Fingerprint string        `json:"fingerprint"`
}

// Range is what the run read of one lane of `pairs`.
type Range struct {
	Lane    int    `json:"lane"`
	Start   int64  `json:"start"` // offset of the first record
	End     int64  `json:"end"`   // offset after the last one
	Records int64  `json:"records"`
	Digest  string `json:"digest"`
	Ended   bool   `json:"ended"` // with a final seal that every stage has reached
}

// Topic is what the run wrote to one topic.
type Topic struct {
	Topic schemas.Topic `json:"topic"`
	Lanes []Lane        `json:"lanes"`
}

// Lane is what the run wrote to one lane of a topic.
type Lane struct {
	Lane    int    `json:"lane"`
	Records int64  `json:"records"`
	Digest  string `json:"digest"`
}

// outputs returns the topics that stages write, in the order of the pipeline.
func outputs() []schemas.Topic {
	var topics []schemas.Topic
	for _, info := range schemas.Catalogue() {
		if stream.Sequenced(info.Topic) {
			topics = append(topics, info.Topic)
		}
	}
	return topics
}

// ReadManifest reads and checks a manifest.
func ReadManifest(path string) (*Manifest, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", path, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", path, err)
	}
	return &m, nil
}

// numbers matches a list of numbers that stands on several lines.
var numbers = regexp.MustCompile(`\[\n[-+.0-9eE,\s]*\]`)

// Write writes the manifest as JSON. A list of numbers stands on one line.
func (m *Manifest) Write(w io.Writer) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		text = numbers.ReplaceAllFunc(text, func(list []byte) []byte { return bytes.Join(bytes.Fields(list), nil) })
		_, err = w.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

func (m *Manifest) check() error {
	if m.Version != manifestVersion {
		return fmt.Errorf("its version is %d, this program reads version %d", m.Version, manifestVersion)
	}
	if m.Lanes < 1 || len(m.Pairs) != m.Lanes {
		return fmt.Errorf("%d lanes, but %d ranges of pairs", m.Lanes, len(m.Pairs))
	}
	var problems []error
	for i, r := range m.Pairs {
		if r.Lane != i || r.Start < 0 || r.Records < 0 || r.End-r.Start < r.Records || !isDigest(r.Digest) {
			problems = append(problems, fmt.Errorf("pairs, lane %d: %d records from offset %d to %d with digest %q", i, r.Records, r.Start, r.End, r.Digest))
		}
	}
	want := outputs()
	if len(m.Topics) != len(want) {
		return fmt.Errorf("%d topics, want %v", len(m.Topics), want)
	}
	for i, t := range m.Topics {
		if t.Topic != want[i] || len(t.Lanes) != m.Lanes {
			problems = append(problems, fmt.Errorf("topic %q with %d lanes where %s belongs", t.Topic, len(t.Lanes), want[i]))
			continue
		}
		for lane, l := range t.Lanes {
			if l.Lane != lane || l.Records < 0 || !isDigest(l.Digest) {
				problems = append(problems, fmt.Errorf("%s, lane %d: %d records with digest %q", t.Topic, lane, l.Records, l.Digest))
			}
		}
	}
	return errors.Join(problems...)
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32
}

// Settings returns the effective values of the settings that a run depends on: no secrets, and nothing about
// connections, addresses and logs.
func Settings(known []config.Setting, environ map[string]string) map[string]string {
	values := make(map[string]string)
	for _, s := range known {
		if s.Secret || isPlace(s.Variable) {
			continue
		}
		values[s.Variable] = s.Default
		if v := environ[s.Variable]; v != "" {
			values[s.Variable] = v
		}
	}
	return values
}

// isPlace reports whether a setting says where a process is and what it talks to, not what it makes of its input.
func isPlace(variable string) bool {
	for _, prefix := range []string{"KAFKA_", "HTTP_", "LOG_", "LIVE_ADDR", "CONSOLE_", "MASTER_", "RANK_", "OTEL_"} {
		if strings.HasPrefix(variable, prefix) {
			return true
		}
	}
	switch variable {
	case "NAMESPACE", "LANES", "EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD":
		return true
	}
	return false
}

// Place is where a replay runs.
type Place struct {
	Namespace   string
	Checkpoints string            // folder of its own for the trainer
	Overrides   map[string]string // settings that differ from those of the manifest
}

// Environ returns the environment of a replay: connections from environ, everything else from the manifest and the
// overrides. Warnings say what may make the replay differ.
func (m *Manifest) Environ(known []config.Setting, environ map[string]string, p Place) (values map[string]string, warnings []string) {
	values = make(map[string]string)
	isKnown := make(map[string]bool)
	for _, s := range known {
		isKnown[s.Variable] = true
		if v, ok := environ[s.Variable]; ok && (isPlace(s.Variable) || s.Secret) {
			values[s.Variable] = v
		}
	}
	for _, from := range []map[string]string{m.Settings, p.Overrides} {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if !isKnown[name] {
				warnings = append(warnings, fmt.Sprintf("%s=%s: this version does not know the setting", name, from[name]))
				continue
			}
			values[name] = from[name]
		}
	}
	values["NAMESPACE"], values["LANES"] = p.Namespace, fmt.Sprint(m.Lanes)
	values["CHECKPOINT_DIR"], values["TRAIN_EXIT_AT_END"] = p.Checkpoints, "true"
	values["RANK"], values["WORLD_SIZE"] = "0", "1" // which makes what several ranks make
	for _, beside := range []string{"EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD"} {
		delete(values, beside) // records do not depend on it, and copies of the original's checkpoints stay what they are
	}
	delete(values, "LIVE_ADDR")
	delete(values, "HTTP_ADDR")
	delete(values, "HEALTH_ADDR")
	return values, warnings
}
