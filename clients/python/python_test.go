// Package python holds examples of programs in Python that publish pairs and read batches. Its tests run them against
// the embedded broker; they are skipped where python3 or the packages of requirements.txt are missing.
package python

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// python finds the interpreter, PAIRSTREAM_PYTHON or python3, and skips the test if it or a package is missing. It
// returns a function that runs the interpreter with arguments and returns what it prints.
func python(t *testing.T, packages ...string) func(stdin string, args ...string) (string, error) {
	t.Helper()
	missing := t.Skipf
	name := os.Getenv("PAIRSTREAM_PYTHON")
	if name != "" {
		missing = t.Fatalf // whoever names an interpreter means the tests to run
	} else {
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		missing("%s is not installed", name)
	}
	for _, p := range packages {
		if out, err := exec.CommandContext(t.Context(), path, "-c", "import "+p).CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			missing("%s has no package %s (pip install -r clients/python/requirements.txt): %s", path, p, lines[len(lines)-1])
		}
	}
	return func(stdin string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return stdout.String(), fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		return stdout.String(), nil
	}
}

func mustRun(t *testing.T, run func(string, ...string) (string, error), args ...string) string {
	t.Helper()
	out, err := run("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newLog starts a broker and creates the topics.
func newLog(t *testing.T) (*stream.Log, stream.Config) {
	t.Helper()
	broker, err := stream.StartBroker(stream.BrokerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() }) // the test has ended: nothing is lost with it
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.Namespace = []string{broker.Addr()}, 3, "py"
	log, err := stream.Connect(t.Context(), cfg, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	if err := log.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	return log, cfg
}

func TestPublishPair(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	log, cfg := newLog(t)
	encoded := []byte("\xff\xd8 bytes of a JPEG file")
	file := filepath.Join(t.TempDir(), "cat.jpg")
	if err := os.WriteFile(file, encoded, 0o644); err != nil {
		t.Fatal(err)
	}
	image := schemas.NewImageID(encoded)
	tests := []struct {
		name, caption string
		args          []string
		want          func(p *schemas.Pair) bool
	}{
		{"inline", "a cat – 猫", nil, func(p *schemas.Pair) bool {
			return bytes.Equal(p.Inline, encoded) && p.Image == nil
		}},
		{"by reference", "a cat", []string{"--uri", "s3://crawl/0.tar", "--offset", "1536"}, func(p *schemas.Pair) bool {
			return p.Inline == nil && *p.Image == schemas.ImageRef{URI: "s3://crawl/0.tar", Offset: 1536, Size: int64(len(encoded))}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"publish_pair.py", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace, file, tt.caption}
			mustRun(t, run, append(args, tt.args...)...)
			id := schemas.NewPairID(image, tt.caption)
			p := lastPair(t, log, id.Lane(cfg.Lanes))
			if p.ID != id || p.ImageID != image || p.Caption != tt.caption || !tt.want(p) {
				t.Errorf("published %+v", p)
			}
		})
	}
}

// lastPair reads the pair at the end of a lane.
func lastPair(t *testing.T, log *stream.Log, lane int) *schemas.Pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bounds, err := log.Bounds(ctx, schemas.Pairs, lane)
	if err != nil || bounds.End == 0 {
		t.Fatalf("lane %d holds no pair (%v)", lane, err)
	}
	r := log.OpenReader(schemas.Pairs, lane, stream.Position{Offset: bounds.End - 1}, stream.ReaderOptions{})
	defer r.Close()
	rec, err := r.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := got.(*schemas.Pair)
	if !ok {
		t.Fatalf("lane %d ends with a %T", lane, got)
	}
	return p
}

// golden returns a record of the golden files, and its bytes.
func golden(t *testing.T, name string) (schemas.Record, []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../schemas/testdata/golden/v1", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	schema, digits, _ := strings.Cut(string(text), "\n")
	value, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := schemas.Unmarshal(schema, value)
	if err != nil {
		t.Fatal(err)
	}
	return rec, value
}

func TestReadBatches(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	log, cfg := newLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	rec, _ := golden(t, "scored-batch")
	want := rec.(*schemas.ScoredBatch)
	const lane = 2
	// The second record is there twice, as after a crash; a seal stands between and another at the end.
	for i, r := range []schemas.Record{want, &schemas.Seal{}, &schemas.Seal{}, want, &schemas.Seal{Final: true}} {
		seq := []int64{0, 1, 1, 2, 3}[i]
		if err := p.PublishSeq(t.Context(), schemas.Scored, lane, seq, stream.Mark{}, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	args := []string{"read_batches.py", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace, "--topic", "scored", "--lane", fmt.Sprint(lane)}
	lines := strings.Split(strings.TrimSpace(mustRun(t, run, args...)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d batches, want 2:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	var got struct {
		Schema, Group, Strategy string
		Epoch, Sequence         int32
		IDs, Texts              []string
		HardestTexts            [][]int32 `json:"hardest_texts"`
		Probabilities           []float32
	}
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != want.Schema() || got.Group != want.Group.String() || got.Strategy != want.Strategy || got.Epoch != want.Epoch ||
		got.Sequence != want.Sequence || len(got.IDs) != len(want.Samples) || len(got.HardestTexts) != len(want.Samples) {
		t.Errorf("read %+v", got)
	}
	for i, s := range want.Samples {
		if got.IDs[i] != s.ID.String() || got.Texts[i] != s.Text {
			t.Errorf("sample %d: read %s %q, want %s %q", i, got.IDs[i], got.Texts[i], s.ID, s.Text)
		}
		for j, c := range got.HardestTexts[i] {
			if at := i*int(want.M) + j; c != want.I2T[at] || got.Probabilities[at] != want.ProbI2T[at] {
				t.Errorf("candidate %d of sample %d: read %d with %g", j, i, c, got.Probabilities[at])
			}
		}
	}
}

// A gap in the seqs is an error, not something to read over.
func TestReadBatchesStopsAtGap(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	log, cfg := newLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, seq := range []int64{0, 2} {
		if err := p.PublishSeq(t.Context(), schemas.Batches, 0, seq, stream.Mark{}, &schemas.Seal{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := run("", "read_batches.py", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace)
	if err == nil || !strings.Contains(err.Error(), "records 1 to 1 are missing") {
		t.Errorf("error is %v", err)
	}
}

// Python's msgpack writes the bytes that Go's writes, for every record without floats.
func TestPythonEncodesTheSameBytes(t *testing.T) {
	run := python(t, "msgpack")
	const script = "import sys, records\nfor line in sys.stdin:\n    print(records.pack(records.unpack(bytes.fromhex(line))).hex())"
	for _, name := range []string{
		"pair-by-reference", "pair-inline", "pair-long-caption", "seal", "seal-final", "neighbor-chunk", "batch", "batch-of-one",
		"scored-batch", "feature-block",
	} {
		_, value := golden(t, name)
		out, err := run(hex.EncodeToString(value)+"\n", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out); got != hex.EncodeToString(value) {
			t.Errorf("%s: Python encodes\n%s\nwant\n%x", name, got, value)
		}
	}
}
