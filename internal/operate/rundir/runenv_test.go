package rundir

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestRunEnvOpensNothing has a stranger's folder, whose file names a broker, and settings that would be further lines.
func TestRunEnvOpensNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"KAFKA_BROKERS", "KAFKA_SASL_PASSWORD", "LIVE_TOKEN", "INGEST_ADDR", "GROUP_SIZE", "NAMESPACE", "LANES"} {
		t.Setenv(name, "")
	}
	must.Do(t, WriteEnv(dir, "", map[string]string{
		"KAFKA_BROKERS": "evil:9092", "KAFKA_SASL_PASSWORD": "x", "LIVE_TOKEN": "x", "INGEST_ADDR": ":1", "GROUP_SIZE": "9", "LANES": "2",
	}))
	got := must.Get(EnvironIn(dir))(t)
	if got["GROUP_SIZE"] != "9" || got["LANES"] != "2" || got["KAFKA_BROKERS"]+got["KAFKA_SASL_PASSWORD"]+got["LIVE_TOKEN"]+got["INGEST_ADDR"] != "" {
		t.Errorf("KAFKA_BROKERS=%s GROUP_SIZE=%s LANES=%s", got["KAFKA_BROKERS"], got["GROUP_SIZE"], got["LANES"])
	}
	for _, value := range []string{"a\nKAFKA_BROKERS=evil:9092", "a\rb", "\x1b[2J"} {
		if err := WriteEnv(dir, "x", map[string]string{"FILTER": value}); err == nil || !strings.Contains(err.Error(), "FILTER is ") {
			t.Errorf("%q: error %v", value, err)
		}
	}
	if _, err := os.Stat(EnvFile(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("a file is there: %v", err)
	}
}

// TestRunEnvOfAnEarlierBuild reads two settings that one says now.
func TestRunEnvOfAnEarlierBuild(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, WriteEnv(dir, "", map[string]string{"EPOCH_ORDER": "group", "EPOCH_GROUPS": "8", "SEED": "7"}))
	if got := must.Get(ReadEnv(EnvFile(dir, "")))(t); !maps.Equal(got, map[string]string{"EPOCH_GROUPS": "1", "SEED": "7"}) {
		t.Errorf("settings %v, want those of one group at a time", got)
	}
}
