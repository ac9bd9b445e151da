package rerun

import (
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestReplayLeavesItsSettings replays a run whose log lies in a folder. The replay leaves its settings there, for the
// commands that look at it. It leaves those of another run alone.
func TestReplayLeavesItsSettings(t *testing.T) {
	t.Setenv("NAMESPACE", "exp")
	cfg := stream.DefaultConfig()
	cfg.Namespace, cfg.Lanes = "exp", 2
	dir := t.TempDir()
	o := Options{Namespace: "exp", Dir: dir}
	leave := func(cfg stream.Config, seed string) string {
		t.Helper()
		must.Do(t, o.leaveRunEnv(cfg, map[string]string{"SEED": seed}))
		environ := must.Get(rundir.EnvironIn(dir))(t)
		return environ["LANES"] + " " + environ["SEED"]
	}
	t.Setenv("LANES", "")
	t.Setenv("SEED", "")
	cluster := cfg
	cluster.Brokers = []string{"kafka:9092"}
	for _, c := range []struct {
		name, seed, want string
		cfg              stream.Config
	}{
		{"on a cluster", "6", " ", cluster},
		{"in a folder", "7", "2 7", cfg},
		{"of another run", "8", "2 7", cfg},
	} {
		if got := leave(c.cfg, c.seed); got != c.want {
			t.Errorf("%s: LANES and SEED are %q, want %q", c.name, got, c.want)
		}
	}
}

// TestReplayOfAStrangersManifest has a manifest that names the broker to send a password to, and a setting with further
// lines.
func TestReplayOfAStrangersManifest(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", logtest.Broker(t))
	t.Setenv("NAMESPACE", "stranger")
	t.Setenv("LANES", "2")
	log := must.Get(rundir.Connect(t.Context()))(t)
	must.Do(t, log.EnsureTopics(t.Context()))
	log.Close()
	m := must.Get(Describe(t.Context(), t.TempDir(), "", true))(t)
	for _, name := range []string{"KAFKA_SASL", "KAFKA_SASL_PASSWORD", "HEALTH_ADDR", "INGEST_ADDR"} {
		t.Setenv(name, "")
	}
	brokers := config.Environ()["KAFKA_BROKERS"]
	maps.Copy(m.Settings, map[string]string{
		"KAFKA_BROKERS": "evil:9092", "KAFKA_SASL": "PLAIN", "KAFKA_SASL_USER": "u", "KAFKA_SASL_PASSWORD": "p", "BUCKET_ROOTS": "file:///",
		"ENCODER_CHECKPOINT": "w", "COND_CHECKPOINT": "w",
	})
	var warnings strings.Builder
	o := Options{Namespace: "x", Dir: t.TempDir()}
	p, _, err := o.settings(m, &warnings)
	if err != nil || strings.Join(p.Stream.Brokers, ",") != brokers || p.Stream.SASL != "" || p.Stream.SASLPassword != "" {
		t.Errorf("%v: connects to %q with SASL %q", err, p.Stream.Brokers, p.Stream.SASL)
	}
	if text := warnings.String(); strings.Count(text, "warning: ") != 4 || !strings.Contains(text, "KAFKA_BROKERS=evil:9092 was left out") {
		t.Errorf("it warns of\n%s", text)
	}
	m.Settings["FILTER"] = "width > 1\nKAFKA_BROKERS=evil:9092"
	if _, _, err := o.settings(m, io.Discard); err == nil || !strings.Contains(err.Error(), `FILTER="width > 1\nKAFKA_BROKERS=evil:9092": it has a line end`) {
		t.Errorf("a setting of two lines: error %v", err)
	}
}
