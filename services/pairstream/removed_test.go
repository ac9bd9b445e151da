//go:build cgo

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestACommandTellsOfSettingsThatWereRemoved runs a command with a setting that became a constant, and with one whose
// silence would change what is deleted.
func TestACommandTellsOfSettingsThatWereRemoved(t *testing.T) {
	run := func() (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs([]string{"settings"})
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	t.Setenv("STREAM_LINGER", "9ms")
	if out, err := run(); err != nil || !strings.HasPrefix(out, "STREAM_LINGER=9ms has no effect, the setting was removed: ") {
		t.Errorf("error %v, output %.200q", err, out)
	}
	t.Setenv("KAFKA_RETENTION_TOPICS", "batches=1h")
	if _, err := run(); err == nil || !strings.HasPrefix(err.Error(), "KAFKA_RETENTION_TOPICS=batches=1h has no effect") {
		t.Errorf("error %v", err)
	}
}
