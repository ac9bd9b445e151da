package pipeline

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestRunEnv finds by namespace what a run leaves. It carries what a manifest needs and no secret. The environment
// takes precedence.
func TestRunEnv(t *testing.T) {
	dir := t.TempDir()
	for _, s := range config.Settings(Settings{}) { // whatever the tests are run with
		t.Setenv(s.Variable, "")
	}
	cfg := stream.DefaultConfig()
	cfg.Lanes = 2
	for _, namespace := range []string{"", "exp"} {
		cfg.Namespace = namespace
		run := map[string]string{"SEED": "7" + namespace, "GROUP_SIZE": "9", "KAFKA_SASL_PASSWORD": "open sesame", "KAFKA_SASL_USER": "alice"}
		must.Do(t, LeaveSettings(dir, cfg, run))
	}
	for namespace, seed := range map[string]string{"": "7", "exp": "7exp"} {
		t.Setenv("NAMESPACE", namespace)
		got := must.Get(rundir.EnvironIn(dir))(t)
		if got["SEED"] != seed || got["GROUP_SIZE"] != "9" || got["LANES"] != "2" || got["BATCH_SIZE"] != "96" || got["NAMESPACE"] != namespace {
			t.Errorf("namespace %q: SEED=%s GROUP_SIZE=%s LANES=%s BATCH_SIZE=%s", namespace, got["SEED"], got["GROUP_SIZE"], got["LANES"], got["BATCH_SIZE"])
		}
		raw, err := os.ReadFile(rundir.EnvFile(dir, namespace))
		if err != nil || strings.Contains(string(raw), "sesame") || strings.Contains(string(raw), "alice") {
			t.Errorf("%v: %s", err, raw)
		}
	}
	t.Setenv("GROUP_SIZE", "11")
	if got, err := rundir.EnvironIn(dir); err != nil || got["GROUP_SIZE"] != "11" {
		t.Errorf("GROUP_SIZE=%s, %v: want that of the environment", got["GROUP_SIZE"], err)
	}
	if got, err := rundir.EnvironIn(t.TempDir()); err != nil || got["SEED"] != "" {
		t.Errorf("SEED=%s, %v: want the environment alone", got["SEED"], err)
	}
}

// TestChangedSettingsAreNoted starts a run again with other settings. The file says what has changed, once something was
// made with the settings before.
func TestChangedSettingsAreNoted(t *testing.T) {
	dir := t.TempDir()
	for _, s := range config.Settings(Settings{}) {
		t.Setenv(s.Variable, "")
	}
	t.Setenv("SEED", "9")
	cfg := stream.DefaultConfig()
	cfg.Lanes = 1
	must.Do(t, LeaveSettings(dir, cfg, map[string]string{"SEED": "3"}))
	log, closeLog, err := OpenLog(t.Context(), service.NewRuntime(slog.New(slog.DiscardHandler)), cfg, "127.0.0.1:0", filepath.Join(dir, "broker"))
	must.Do(t, err)
	leave := func(seed string, want ...string) {
		t.Helper()
		must.Do(t, LeaveChanges(t.Context(), log, dir, cfg, map[string]string{"SEED": seed}))
		if got := must.Get(rundir.ChangesIn(rundir.EnvFile(dir, "")))(t); !slices.Equal(got, want) {
			t.Errorf("SEED=%s: changes %q, want %q", seed, got, want)
		}
		if got := must.Get(rundir.EnvironIn(dir))(t); got["SEED"] != "9" { // of the environment
			t.Errorf("SEED is %s", got["SEED"])
		}
	}
	leave("4") // nothing was made with the 3
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.PublishSeq(t.Context(), schemas.Embeddings, 0, 0, stream.Mark{}, &schemas.Seal{}))
	must.Do(t, p.Close(t.Context()))
	leave("4")
	leave("5", `SEED was "4" and became "5"`)
	leave("5", `SEED was "4" and became "5"`)
	leave("4", `SEED was "4" and became "5"`, `SEED was "5" and became "4"`)
	must.Do(t, closeLog())
}
