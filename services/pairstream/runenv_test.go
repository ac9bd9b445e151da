//go:build cgo

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestRunEnv finds by namespace what a run leaves. It carries what a manifest needs and no secret. The environment
// takes precedence.
func TestRunEnv(t *testing.T) {
	dir := t.TempDir()
	for _, s := range config.Settings(pipeline{}) { // whatever the tests are run with
		t.Setenv(s.Variable, "")
	}
	cfg := stream.DefaultConfig()
	cfg.Lanes = 2
	for _, namespace := range []string{"", "exp"} {
		cfg.Namespace = namespace
		run := map[string]string{"SEED": "7" + namespace, "GROUP_SIZE": "9", "KAFKA_SASL_PASSWORD": "open sesame", "KAFKA_SASL_USER": "alice"}
		must.Do(t, leaveRunEnv(dir, cfg, run))
	}
	for namespace, seed := range map[string]string{"": "7", "exp": "7exp"} {
		t.Setenv("NAMESPACE", namespace)
		got := must.Get(environIn(dir))(t)
		if got["SEED"] != seed || got["GROUP_SIZE"] != "9" || got["LANES"] != "2" || got["BATCH_SIZE"] != "96" || got["NAMESPACE"] != namespace {
			t.Errorf("namespace %q: SEED=%s GROUP_SIZE=%s LANES=%s BATCH_SIZE=%s", namespace, got["SEED"], got["GROUP_SIZE"], got["LANES"], got["BATCH_SIZE"])
		}
		raw, err := os.ReadFile(runEnvFile(dir, namespace))
		if err != nil || strings.Contains(string(raw), "sesame") || strings.Contains(string(raw), "alice") {
			t.Errorf("%v: %s", err, raw)
		}
	}
	t.Setenv("GROUP_SIZE", "11")
	if got, err := environIn(dir); err != nil || got["GROUP_SIZE"] != "11" {
		t.Errorf("GROUP_SIZE=%s, %v: want that of the environment", got["GROUP_SIZE"], err)
	}
	if got, err := environIn(t.TempDir()); err != nil || got["SEED"] != "" {
		t.Errorf("SEED=%s, %v: want the environment alone", got["SEED"], err)
	}
}

// TestRefusedStartLeavesTheSettings starts a second run on a folder whose broker runs. It is refused, and the settings
// of the first stay. A start with other settings behind it says what has changed, once something was made with the ones
// before.
func TestRefusedStartLeavesTheSettings(t *testing.T) {
	dir := t.TempDir()
	for _, s := range config.Settings(pipeline{}) {
		t.Setenv(s.Variable, "")
	}
	for name, value := range map[string]string{
		"BUCKET_ROOTS": "file://" + dir, "LOG_LEVEL": "error", "CONSOLE_ADDR": "off", "CHECKPOINT_DIR": filepath.Join(dir, "c"),
		"ENCODER_CHECKPOINT": "/nowhere", "COND_CHECKPOINT": "/nowhere", "TRAIN_INIT": "/nowhere", "SEED": "9", "LANES": "1",
	} {
		t.Setenv(name, value)
	}
	cfg := stream.DefaultConfig()
	cfg.Lanes = 1
	must.Do(t, leaveRunEnv(dir, cfg, map[string]string{"SEED": "3"}))
	before := must.Get(os.ReadFile(runEnvFile(dir, "")))(t)
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	log, closeLog, err := openLog(t.Context(), rt, cfg, "127.0.0.1:0", filepath.Join(dir, "broker"))
	must.Do(t, err)
	if _, err := command(t, "up", "--data", dir, "--addr", "127.0.0.1:0"); err == nil || strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a second run on the folder: %v", err)
	}
	if after := must.Get(os.ReadFile(runEnvFile(dir, "")))(t); !bytes.Equal(before, after) {
		t.Errorf("the refused run left\n%s\nin the place of\n%s", after, before)
	}

	leave := func(seed string, want ...string) {
		t.Helper()
		must.Do(t, leaveChanges(t.Context(), log, dir, cfg, map[string]string{"SEED": seed}))
		if got := must.Get(changesIn(runEnvFile(dir, "")))(t); !slices.Equal(got, want) {
			t.Errorf("SEED=%s: changes %q, want %q", seed, got, want)
		}
		if got := must.Get(environIn(dir))(t); got["SEED"] != "9" { // of the environment
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

// TestRunEnvOpensNothing has a stranger's folder, whose file names a broker, and settings that would be further lines.
func TestRunEnvOpensNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"KAFKA_BROKERS", "KAFKA_SASL_PASSWORD", "LIVE_TOKEN", "INGEST_ADDR", "GROUP_SIZE", "NAMESPACE", "LANES"} {
		t.Setenv(name, "")
	}
	must.Do(t, writeRunEnv(dir, "", map[string]string{
		"KAFKA_BROKERS": "evil:9092", "KAFKA_SASL_PASSWORD": "x", "LIVE_TOKEN": "x", "INGEST_ADDR": ":1", "GROUP_SIZE": "9", "LANES": "2",
	}))
	got := must.Get(environIn(dir))(t)
	if got["GROUP_SIZE"] != "9" || got["LANES"] != "2" || got["KAFKA_BROKERS"]+got["KAFKA_SASL_PASSWORD"]+got["LIVE_TOKEN"]+got["INGEST_ADDR"] != "" {
		t.Errorf("KAFKA_BROKERS=%s GROUP_SIZE=%s LANES=%s", got["KAFKA_BROKERS"], got["GROUP_SIZE"], got["LANES"])
	}
	for _, value := range []string{"a\nKAFKA_BROKERS=evil:9092", "a\rb", "\x1b[2J"} {
		if err := writeRunEnv(dir, "x", map[string]string{"FILTER": value}); err == nil || !strings.Contains(err.Error(), "FILTER is ") {
			t.Errorf("%q: error %v", value, err)
		}
	}
	if _, err := os.Stat(runEnvFile(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("a file is there: %v", err)
	}
}
