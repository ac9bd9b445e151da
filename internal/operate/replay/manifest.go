package replay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/schemas"
)

// manifestVersion is raised when older programs cannot read a new manifest.
const manifestVersion = 1

// Manifest describes a run.
type Manifest struct {
	Version    int               `json:"version"`
	Pairstream string            `json:"pairstream"` // version of the program that wrote the manifest, for people
	Namespace  string            `json:"namespace"`
	Lanes      int               `json:"lanes"`
	Seed       string            `json:"seed"`
	Settings   map[string]string `json:"settings"`          // effective values, without secrets and connections
	Models     []Model           `json:"models"`            // fingerprints of the models whose results are in the records
	Weights    []weights.Weights `json:"weights,omitempty"` // files used by an encoder that followed the trainer
	Choices    []weights.Choice  `json:"choices,omitempty"` // the record of each lane from which it used them
	Judged     []feedback.Count  `json:"judged,omitempty"`  // judgements of connections, and the batches from which they count
	Asked      []scope.Choice    `json:"asked,omitempty"`   // the closed groups that each group searched, with NEIGHBORS_SCOPE=all
	Changed    []string          `json:"changed,omitempty"` // differences between two starts of the run, for people; a replay repeats the last start only
	Pairs      []Range           `json:"pairs"`             // by lane
	Topics     []Topic           `json:"topics"`
	Course     *compare.Course   `json:"course,omitempty"` // results of the run, for people; nil in manifests of older versions
}

// Model is a model that left its fingerprint in the records of a topic.
type Model struct {
	Topic       schemas.Topic `json:"topic"`
	Fingerprint string        `json:"fingerprint"`
}

// Range holds the records of one lane of `pairs` that the run read.
type Range struct {
	Lane    int    `json:"lane"`
	Start   int64  `json:"start"` // offset of the first record
	End     int64  `json:"end"`   // offset after the last one
	Records int64  `json:"records"`
	Digest  string `json:"digest"`
	Ended   bool   `json:"ended"` // every stage has reached the final seal
}

// Topic describes the records that the run wrote to one topic.
type Topic struct {
	Topic schemas.Topic `json:"topic"`
	Lanes []Lane        `json:"lanes"`
}

// Lane describes the records that the run wrote to one lane of a topic.
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
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	defer file.Close()
	return readManifest(file)
}

// ReadManifestIn is [ReadManifest] for a folder that others may write to. It refuses pipes and devices, on which a read
// would block.
func ReadManifestIn(dir, name string) (*Manifest, time.Time, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the manifest: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("want an ordinary file")
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the manifest %s: %w", file.Name(), err)
	}
	m, err := readManifest(file)
	return m, info.ModTime(), err
}

func readManifest(file *os.File) (*Manifest, error) {
	var m Manifest
	raw, err := io.ReadAll(file)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %s: %w", file.Name(), err)
	}
	return &m, nil
}

// numbers matches a list of numbers that is spread over several lines.
var numbers = regexp.MustCompile(`\[\n[-+.0-9eE,\s]*\]`)

// Write writes the manifest as JSON, with each list of numbers on one line.
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
	for _, w := range m.Weights {
		problems = append(problems, checkFingerprint(w.Fingerprint))
	}
	for _, c := range m.Choices {
		problems = append(problems, checkFingerprint(c.Fingerprint))
	}
	if m.Course != nil {
		problems = append(problems, m.Course.Check())
	}
	return errors.Join(problems...)
}

// checkFingerprint refuses the fingerprint of weights whose file would lie outside their folder.
func checkFingerprint(s string) error {
	if s == "" || s != display.Printable(s) || !filepath.IsLocal(s) || filepath.Base(s) != s {
		return fmt.Errorf("weights with the fingerprint %q, which names no file", s)
	}
	return nil
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32
}
