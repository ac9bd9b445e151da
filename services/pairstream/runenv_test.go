//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
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
