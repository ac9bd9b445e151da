//go:build cgo

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestACommandTellsOfSettingsThatWereRemoved gives every command a setting that became a constant, and one whose silence
// would change records. Commands that only read tell of both and go on; the others refuse the second.
func TestACommandTellsOfSettingsThatWereRemoved(t *testing.T) {
	const constant, changes = "STREAM_LINGER=9ms has no effect, the setting was removed: ", "KAFKA_RETENTION_TOPICS=batches=1h has no effect"
	start := func(words string) (told string, err error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetErr(&out)
		cmd, rest, err := root.Find(strings.Fields(words))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, left %q", words, err, rest)
		}
		err = root.PersistentPreRunE(cmd, nil)
		return out.String(), err
	}
	t.Setenv("STREAM_LINGER", "9ms")
	t.Setenv("KAFKA_RETENTION_TOPICS", "batches=1h")
	for _, words := range []string{
		"status", "progress", "console", "report", "healthcheck", "eval", "eval negatives", "compare", "connections", "search", "faiss", "plan",
		"settings", "run-manifest", "vocab", "dead-letters list", "dead-letters show", "lanes list", "lanes look",
	} {
		if told, err := start(words); err != nil || !strings.HasPrefix(told, constant) || !strings.Contains(told, changes) {
			t.Errorf("%s: error %v, told %q", words, err, told)
		}
	}
	for _, words := range []string{
		"demo", "up", "broker", "topics", "synth", "fetch", "produce", "ingest", "seal", "bootstrap", "finetune", "batches", "forget",
		"replay", "dead-letters replay", "lanes skip",
	} {
		if told, err := start(words); err == nil || !strings.HasPrefix(err.Error(), changes) || !strings.HasPrefix(told, constant) {
			t.Errorf("%s: error %v, told %q", words, err, told)
		}
	}
}
