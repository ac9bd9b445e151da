// Package python tests the Python package beside it: against the embedded broker, and against the codec of package
// schemas. The tests are skipped where python3 or a package that pyproject.toml asks for is missing.
package python

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
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
			missing("%s has no package %s (pip install clients/python): %s", path, p, lines[len(lines)-1])
		}
	}
	return func(stdin string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src", "OMP_NUM_THREADS=1")
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
	out := must.Get(run("", args...))(t)
	return out
}

// newLog starts a broker and creates the topics.
func newLog(t *testing.T) (*stream.Log, stream.Config) {
	t.Helper()
	log := logtest.Open(t, logtest.Broker(t), "py", 3)
	return log, log.Config()
}

func TestPublishPair(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	log, cfg := newLog(t)
	encoded := []byte("\xff\xd8 bytes of a JPEG file")
	file := filepath.Join(t.TempDir(), "cat.jpg")
	must.Do(t, os.WriteFile(file, encoded, 0o644))
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
			args := []string{"-m", "pairstream", "publish", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace, file, tt.caption}
			mustRun(t, run, append(args, tt.args...)...)
			id := schemas.NewPairID(image, tt.caption)
			p := lastPair(t, log, image.Lane(cfg.Lanes))
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
	rec := must.Get(r.Next(ctx))(t)
	got := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
	p, ok := got.(*schemas.Pair)
	if !ok {
		t.Fatalf("lane %d ends with a %T", lane, got)
	}
	return p
}

// golden returns a record of the golden files, and its bytes.
func golden(t *testing.T, name string) (schemas.Record, []byte) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("../../schemas/testdata/golden/v1", name+".hex")))(t)
	schema, digits, _ := strings.Cut(string(text), "\n")
	value := must.Get(hex.DecodeString(strings.ReplaceAll(digits, "\n", "")))(t)
	rec := must.Get(schemas.Unmarshal(schema, value))(t)
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
		must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, seq, stream.Mark{}, r))
	}
	must.Do(t, p.Close(t.Context()))
	args := []string{"-m", "pairstream", "read", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace, "--topic", "scored", "--lane", strconv.Itoa(lane)}
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
	must.Do(t, json.Unmarshal([]byte(lines[1]), &got))
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
		must.Do(t, p.PublishSeq(t.Context(), schemas.Batches, 0, seq, stream.Mark{}, &schemas.Seal{}))
	}
	must.Do(t, p.Close(t.Context()))
	_, err := run("", "-m", "pairstream", "read", "--brokers", cfg.Brokers[0], "--namespace", cfg.Namespace)
	if err == nil || !strings.Contains(err.Error(), "records 1 to 1 are missing") {
		t.Errorf("error is %v", err)
	}
}

// refereed is what either codec makes of a value: its bytes written again, or the kind of its error.
const refereed = `
import sys
from pairstream import errors, marshal, unmarshal
for line in sys.stdin:
    schema, _, digits = line.strip().partition(" ")
    try:
        print(marshal(unmarshal(schema, bytes.fromhex(digits))).hex())
    except errors.RecordError as err:
        print(type(err).__name__)
`

// Python accepts and refuses what Go does, and writes the same bytes: every golden record with every byte changed or
// cut off, and every seed of the fuzz targets.
func TestPythonDecodesAsGoDoes(t *testing.T) {
	run := python(t, "msgpack", "confluent_kafka")
	var lines, want []string
	add := func(schema string, value []byte) {
		lines, want = append(lines, schema+" "+hex.EncodeToString(value)), append(want, verdict(schema, value))
	}
	paths, err := filepath.Glob("../../schemas/testdata/golden/v1/*.hex")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d golden records (%v)", len(paths), err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, path := range paths {
		rec, value := golden(t, strings.TrimSuffix(filepath.Base(path), ".hex"))
		add(rec.Schema(), value)
		for range 400 {
			at := r.IntN(len(value))
			changed := bytes.Clone(value)
			changed[at] = []byte{0, 0x7f, 0x80, 0xc0, 0xff, changed[at] ^ 1, changed[at] ^ 0x80}[r.IntN(7)]
			add(rec.Schema(), changed)
			add(rec.Schema(), value[:at])
		}
	}
	seeds, err := filepath.Glob("../../schemas/testdata/fuzz/*/*")
	if err != nil || len(seeds) == 0 {
		t.Fatalf("%d seeds (%v)", len(seeds), err)
	}
	for _, path := range seeds {
		add(seed(t, path))
	}
	out := must.Get(run(strings.Join(lines, "\n")+"\n", "-c", refereed))(t)
	got := strings.Fields(out)
	if len(got) != len(want) {
		t.Fatalf("%d verdicts on %d values", len(got), len(want))
	}
	kinds := map[string]int{}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%.3000s: Python says %.80s, Go says %.80s", lines[i], got[i], want[i])
		}
		if len(want[i]) > 20 {
			want[i] = "accepted"
		}
		kinds[want[i]]++
	}
	if kinds["accepted"] < 1000 || kinds["MalformedError"] < 1000 || kinds["InvalidError"] < 1000 {
		t.Errorf("verdicts %v, want many of each", kinds)
	}
}

// verdict is what [refereed] prints for a value, according to Go.
func verdict(schema string, value []byte) string {
	rec, err := schemas.Unmarshal(schema, value)
	switch {
	case errors.Is(err, schemas.ErrMalformed):
		return "MalformedError"
	case errors.Is(err, schemas.ErrUnknownSchema):
		return "UnknownSchemaError"
	case err != nil:
		return "InvalidError"
	}
	again, err := schemas.Marshal(rec)
	if err != nil {
		return err.Error()
	}
	return hex.EncodeToString(again)
}

// seed reads a file of the fuzz corpus, whose folder is named after the record.
func seed(t *testing.T, path string) (schema string, value []byte) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	_, literal, _ := strings.Cut(string(text), "[]byte(")
	raw, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(literal), ")"))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	of := map[string]string{
		"FuzzPair": schemas.SchemaPair, "FuzzSeal": schemas.SchemaSeal, "FuzzRefusal": schemas.SchemaRefusal, "FuzzEmbedding": schemas.SchemaEmbedding,
		"FuzzNeighborChunk": schemas.SchemaNeighborChunk, "FuzzGroup": schemas.SchemaGroup, "FuzzBatch": schemas.SchemaBatch,
		"FuzzScoredBatch": schemas.SchemaScoredBatch, "FuzzFeatureBlock": schemas.SchemaFeatureBlock, "FuzzProgress": schemas.SchemaProgress,
		"FuzzJudgement": schemas.SchemaJudgement,
	}
	schema, ok := of[filepath.Base(filepath.Dir(path))]
	if !ok {
		t.Fatalf("%s: no record of that name", path)
	}
	return schema, []byte(raw)
}
