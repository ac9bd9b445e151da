package replay

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func exampleManifest() *Manifest {
	digest := stream.NewDigest().Sum()
	m := &Manifest{
		Version: 1, Pairstream: "v1", Namespace: "production", Lanes: 1, Seed: "7", Settings: map[string]string{"SEED": "7"},
		Models: []Model{{schemas.Embeddings, "m1"}}, Pairs: []Range{{0, 5, 9, 4, digest, true}},
	}
	for _, t := range outputs() {
		m.Topics = append(m.Topics, Topic{t, []Lane{{0, 3, digest}}})
	}
	return m
}

func TestManifestReadsBack(t *testing.T) {
	m := exampleManifest()
	var text bytes.Buffer
	must.Do(t, m.Write(&text))
	path := filepath.Join(t.TempDir(), "run.json")
	must.Do(t, os.WriteFile(path, text.Bytes(), 0o644))
	got, err := ReadManifest(path)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("read %+v, %v, want %+v", got, err, m)
	}
	if _, err := ReadManifest(path + "x"); err == nil || !strings.HasPrefix(err.Error(), "reading the manifest: ") {
		t.Errorf("error %v", err)
	}
	must.Do(t, os.WriteFile(path, text.Bytes()[:100], 0o644))
	if _, err := ReadManifest(path); err == nil || !strings.HasPrefix(err.Error(), "reading the manifest "+path) {
		t.Errorf("error %v", err)
	}
}

// TestManifestOfAPipe has a pipe where a folder has manifests. Nobody writes to it, and a reader would wait for ever.
func TestManifestOfAPipe(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "run.json"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder.json"), 0o700))
	for _, name := range []string{"run.json", "folder.json"} {
		if _, _, err := ReadManifestIn(dir, name); err == nil || !strings.HasSuffix(err.Error(), name+": want an ordinary file") {
			t.Errorf("error %v", err)
		}
	}
}

func TestManifestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"good":                      {func(*Manifest) {}, ""},
		"empty lane":                {func(m *Manifest) { m.Pairs[0].End, m.Pairs[0].Records = 5, 0 }, ""},
		"version":                   {func(m *Manifest) { m.Version = 2 }, "its version is 2, this program reads version 1"},
		"no lanes":                  {func(m *Manifest) { m.Lanes = 0 }, "0 lanes, but 1 ranges of pairs"},
		"ranges of other lanes":     {func(m *Manifest) { m.Lanes = 2 }, "2 lanes, but 1 ranges of pairs"},
		"order of lanes":            {func(m *Manifest) { m.Pairs[0].Lane = 1 }, "pairs, lane 0"},
		"more records than room":    {func(m *Manifest) { m.Pairs[0].Records = 5 }, "pairs, lane 0: 5 records from offset 5 to 9"},
		"negative":                  {func(m *Manifest) { m.Pairs[0].Start = -1 }, "pairs, lane 0"},
		"digest of pairs":           {func(m *Manifest) { m.Pairs[0].Digest = "abc" }, `with digest "abc"`},
		"missing topic":             {func(m *Manifest) { m.Topics = m.Topics[1:] }, "5 topics, want [embeddings neighbors groups batches scored features]"},
		"order of topics":           {func(m *Manifest) { m.Topics[0].Topic = "groups" }, `topic "groups" with 1 lanes where embeddings belongs`},
		"lanes of a topic":          {func(m *Manifest) { m.Topics[2].Lanes = nil }, `topic "groups" with 0 lanes where groups belongs`},
		"records of a topic":        {func(m *Manifest) { m.Topics[2].Lanes[0].Records = -1 }, "groups, lane 0: -1 records"},
		"weights of another folder": {func(m *Manifest) { m.Weights = []weights.Weights{{Fingerprint: "../../x"}} }, `weights with the fingerprint "../../x"`},
		"choice of another folder":  {func(m *Manifest) { m.Choices = []weights.Choice{{Fingerprint: "/x"}} }, `weights with the fingerprint "/x"`},
		"weights without a name":    {func(m *Manifest) { m.Weights = []weights.Weights{{}} }, `weights with the fingerprint ""`},
		"weights":                   {func(m *Manifest) { m.Weights = []weights.Weights{{Fingerprint: "0a1b"}} }, ""},
		"curve with too few values": {func(m *Manifest) {
			m.Course = &compare.Course{Curves: []compare.Curve{{Name: "loss", Steps: []int64{1}}}}
		}, `curve "loss" has 1 steps and 0 values`},
		"digest of a topic": {func(m *Manifest) { m.Topics[2].Lanes[0].Digest += "00" }, "groups, lane 0: 3 records"},
	} {
		m := exampleManifest()
		tt.change(m)
		err := m.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, tt.want)
		}
	}
}

var known = []config.Setting{
	{Variable: "KAFKA_BROKERS"},
	{Variable: "KAFKA_SASL_PASSWORD", Secret: true},
	{Variable: "TOKEN", Secret: true},
	{Variable: "NAMESPACE"},
	{Variable: "LANES", Default: "4"},
	{Variable: "LOG_LEVEL", Default: "info"},
	{Variable: "HTTP_ADDR"},
	{Variable: "LIVE_ADDR"},
	{Variable: "HEALTH_ADDR"},
	{Variable: "INGEST_ADDR"},
	{Variable: "SEED", Default: "0"},
	{Variable: "EPOCHS", Default: "20"},
	{Variable: "SPOOL_DIR"},
	{Variable: "CHECKPOINT_DIR", Default: "data/checkpoints"},
	{Variable: "RANK", Default: "0"},
	{Variable: "WORLD_SIZE", Default: "1"},
	{Variable: "TRAIN_EXIT_AT_END", Default: "false"},
	{Variable: "COLOUR"},
}

func TestSettings(t *testing.T) {
	got := Settings(known, map[string]string{
		"KAFKA_BROKERS": "a:1", "KAFKA_SASL_PASSWORD": "hunter2", "TOKEN": "hunter3", "SEED": "7", "EPOCHS": "", "PATH": "/bin", "HTTP_ADDR": ":1",
	})
	want := map[string]string{
		"SEED": "7", "EPOCHS": "20", "SPOOL_DIR": "", "CHECKPOINT_DIR": "data/checkpoints", "RANK": "0", "WORLD_SIZE": "1",
		"TRAIN_EXIT_AT_END": "false", "COLOUR": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("settings %v, want %v", got, want)
	}
}

func TestEnviron(t *testing.T) {
	m := exampleManifest()
	m.Settings = map[string]string{
		"SEED": "7", "EPOCHS": "3", "SPOOL_DIR": "/data/spool/", "CHECKPOINT_DIR": "/data/checkpoints", "RANK": "1", "WORLD_SIZE": "4",
		"GONE": "x",
	}
	got, warnings := m.Environ(known, map[string]string{
		"KAFKA_BROKERS": "a:1", "TOKEN": "t", "NAMESPACE": "production", "LANES": "9", "LOG_LEVEL": "debug", "HTTP_ADDR": ":9090", "LIVE_ADDR": ":8080",
		"HEALTH_ADDR": ":9091", "INGEST_ADDR": ":8091", "SEED": "1", "COLOUR": "red", "PATH": "/bin",
	}, Place{Namespace: "exp", Checkpoints: "/tmp/exp", Overrides: map[string]string{"EPOCHS": "5", "TYPO": "y"}})
	want := map[string]string{
		"KAFKA_BROKERS": "a:1", "TOKEN": "t", "NAMESPACE": "exp", "LANES": "1", "LOG_LEVEL": "debug", // from here
		"SEED": "7", "EPOCHS": "5", // from the manifest and the override; COLOUR was not set in the run
		"SPOOL_DIR": "/data/spool/", "CHECKPOINT_DIR": "/tmp/exp", "TRAIN_EXIT_AT_END": "true", "RANK": "0", "WORLD_SIZE": "1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("environment\n%v\nwant\n%v", got, want)
	}
	wantWarnings := []string{
		"GONE=x: this version does not know the setting", "TYPO=y: this version does not know the setting",
	}
	if !slices.Equal(warnings, wantWarnings) {
		t.Errorf("warnings %q, want %q", warnings, wantWarnings)
	}
}

// TestEnvironOfAnEarlierBuild runs a run again whose manifest has two settings that one says now.
func TestEnvironOfAnEarlierBuild(t *testing.T) {
	m := exampleManifest()
	m.Settings = map[string]string{"TEXTS": "share", "TEXT_SHARE": "0.3", "CURRICULUM_EPOCHS": "0", "LOSS_TRIES": "3"}
	got, warnings := m.Environ([]config.Setting{{Variable: "TEXTS", Default: "none"}}, nil, Place{Namespace: "exp"})
	if got["TEXTS"] != "share:0.3" || len(warnings) > 0 {
		t.Errorf("TEXTS is %q, warnings %q, want share:0.3 and none", got["TEXTS"], warnings)
	}
}

// TestManifestOpensNothing has a manifest of a stranger that names where to connect, what to listen on, secrets,
// programs and other machines. The environment and --set alone may.
func TestManifestOpensNothing(t *testing.T) {
	known := append(slices.Clone(known), []config.Setting{
		{Variable: "KAFKA_TLS", Default: "false"},
		{Variable: "KAFKA_SASL"},
		{Variable: "INGEST_MAX_LAG", Default: "100000"},
		{Variable: "LIVE_TOKEN", Secret: true},
		{Variable: "CONSOLE_ADDR", Default: "127.0.0.1:8090"},
		{Variable: "MASTER_ADDR"},
		{Variable: "RANK_TOKEN", Secret: true},
		{Variable: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{Variable: "CHECKPOINT_UPLOAD"},
		{Variable: "BUCKET_ROOTS"},
		{Variable: "REPACK_ROOT"},
		{Variable: "SEGMENTS_ROOT"},
		{Variable: "ENCODER_CHECKPOINT"},
		{Variable: "COND_CHECKPOINT"},
		{Variable: "TRAIN_INIT"},
		{Variable: "FILTER"},
	}...)
	evil := map[string]string{
		"KAFKA_BROKERS": "evil:9092", "KAFKA_TLS": "true", "KAFKA_SASL": "PLAIN", "KAFKA_SASL_PASSWORD": "hunter2", "TOKEN": "hunter2", "HEALTH_ADDR": ":1", "INGEST_ADDR": ":2",
		"INGEST_MAX_LAG": "1", "LIVE_TOKEN": "hunter2", "LIVE_ADDR": ":3", "CONSOLE_ADDR": ":4", "MASTER_ADDR": "evil", "RANK_TOKEN": "hunter2", "HTTP_ADDR": ":5",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://evil", "CHECKPOINT_UPLOAD": "s3://evil", "NAMESPACE": "evil", "LOG_LEVEL": "debug",
		"BUCKET_ROOTS": "file:///data, s3://b?endpoint=http://a:hunter2@evil", "REPACK_ROOT": "GS://evil", "SEGMENTS_ROOT": "s3://evil",
		"ENCODER_CHECKPOINT": "evil.pt", "COND_CHECKPOINT": "evil.torchscript", "TRAIN_INIT": "EVIL.TS",
	}
	good := map[string]string{"SEED": "7", "SPOOL_DIR": "file:///data/spool", "FILTER": `!source.contains("http://x")`}
	m := exampleManifest()
	m.Settings = maps.Clone(evil)
	maps.Copy(m.Settings, good)
	forced := map[string]string{"NAMESPACE": "exp", "LANES": "1", "CHECKPOINT_DIR": "/c", "TRAIN_EXIT_AT_END": "true", "RANK": "0", "WORLD_SIZE": "1"}

	got, warnings := m.Environ(known, nil, Place{Namespace: "exp", Checkpoints: "/c"})
	want := maps.Clone(good)
	maps.Copy(want, forced)
	if !maps.Equal(got, want) {
		t.Errorf("without an environment\n%v\nwant\n%v", got, want)
	}
	text := strings.Join(warnings, "\n")
	for name := range evil {
		if !strings.Contains(text, name+"=") || !strings.Contains(text, "--set "+name+"=...") {
			t.Errorf("no warning of %s in\n%s", name, text)
		}
	}
	if len(warnings) != len(evil) || strings.Contains(text, "hunter2") || !strings.Contains(text, "KAFKA_BROKERS=evil:9092 was left out: a manifest may not set a connection or a place") {
		t.Errorf("%d warnings, want %d:\n%s", len(warnings), len(evil), text)
	}

	here := map[string]string{"KAFKA_BROKERS": "mine:9092", "KAFKA_SASL_PASSWORD": "mine", "BUCKET_ROOTS": "s3://mine", "SEED": "1"}
	set := map[string]string{"ENCODER_CHECKPOINT": "mine.pt", "REPACK_ROOT": "s3://mine"}
	got, warnings = m.Environ(known, here, Place{Namespace: "exp", Checkpoints: "/c", Overrides: set})
	for _, more := range []map[string]string{here, set, good} {
		maps.Copy(want, more)
	}
	if !maps.Equal(got, want) || len(warnings) != len(evil)-len(set) {
		t.Errorf("with an environment and --set\n%v\nwant\n%v; %d warnings", got, want, len(warnings))
	}

	honest := exampleManifest() // a manifest of before, which has defaults and values of this machine
	honest.Settings = map[string]string{"INGEST_ADDR": "", "INGEST_MAX_LAG": "100000", "BUCKET_ROOTS": "s3://mine", "REPACK_ROOT": "s3://b?endpoint=http://***@h"}
	here["REPACK_ROOT"] = "s3://b?endpoint=http://a:hunter2@h"
	if got, warnings := honest.Environ(known, here, Place{}); len(warnings) > 0 || got["BUCKET_ROOTS"] != "s3://mine" || got["REPACK_ROOT"] != here["REPACK_ROOT"] {
		t.Errorf("an honest manifest: warnings %q, environment %v", warnings, got)
	}
}

// TestSettingsHideSecretsOfURLs: what run.env and run.json hold.
func TestSettingsHideSecretsOfURLs(t *testing.T) {
	got := Settings([]config.Setting{{Variable: "BUCKET_ROOTS"}}, map[string]string{"BUCKET_ROOTS": "file:///d,s3://b?endpoint=http://alice:hunter2@h:9000"})
	if want := "file:///d,s3://b?endpoint=http://***@h:9000"; got["BUCKET_ROOTS"] != want {
		t.Errorf("BUCKET_ROOTS is %q, want %q", got["BUCKET_ROOTS"], want)
	}
}

func TestShifts(t *testing.T) {
	s := shifts{{0, 100}, {3, 105}, {4, 200}}
	for copied, want := range map[int64]int64{0: 100, 2: 102, 3: 105, 4: 200, 9: 205} {
		if got := s.original(copied); got != want {
			t.Errorf("offset %d is a copy of %d, want %d", copied, got, want)
		}
	}
	if got := shifts(nil).original(4); got != 4 {
		t.Errorf("without shifts, offset 4 is a copy of %d", got)
	}
}

func TestPlaces(t *testing.T) {
	tar := func(root string, lane string, offset string) string {
		return "file://" + root + "/lane-" + lane + "/" + strings.Repeat("0", 20-len(offset)) + offset + ".tar"
	}
	original := tar("/data/spool", "00003", "105")
	for name, tt := range map[string]struct {
		path     string
		replayed any
		want     bool
	}{
		"copy of the same pair":   {"image.uri", tar("/data/spool/exp", "00003", "3"), true},
		"whole value":             {"uri", tar("/data/spool/exp", "00003", "3"), true},
		"elsewhere":               {"uri", tar("/other/exp", "00003", "3"), true},
		"another pair":            {"uri", tar("/data/spool/exp", "00003", "4"), false},
		"another lane":            {"uri", tar("/data/spool/exp", "00002", "3"), false},
		"not the replay's folder": {"uri", tar("/data/spool", "00003", "3"), false},
		"another field":           {"caption", tar("/data/spool/exp", "00003", "3"), false},
		"no tar":                  {"uri", "s3://bucket/3.tar", false},
		"no text":                 {"uri", int64(3), false},
	} {
		p := places{namespace: "exp", lane: 3, shifts: shifts{{0, 100}, {3, 105}}}
		if got := p.same(tt.path, original, tt.replayed); got != tt.want || (p.moved == 1) != tt.want {
			t.Errorf("%s: same is %t, %d moved", name, got, p.moved)
		}
	}
}

// TestConcludeBlind decides by digests, because the original's records cannot be compared any more.
func TestConcludeBlind(t *testing.T) {
	rec := stream.Record{Schema: "s", Value: []byte("v")}
	one := stream.NewDigest()
	one.Add(rec)
	for want, digest := range map[string]string{"": one.Sum(), "some record: the digests are not equal": stream.NewDigest().Sum()} {
		f := &follower{want: Lane{Records: 1, Digest: digest}, places: &places{}, digest: one, seen: stream.NewDigest(), blind: stream.ErrGap}
		r, err := f.conclude(Result{Records: 1})
		if err != nil || r.Equal != (want == "") || !strings.HasPrefix(r.Differs, want) {
			t.Errorf("result %+v, %v", r, err)
		}
	}
}
