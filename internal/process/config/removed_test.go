package config

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestTellRemoved(t *testing.T) {
	const (
		lines = "STREAM_SESSION_TIMEOUT, at least 10s; take it out"
		moved = "KAFKA_RETENTION_TOPICS=batches=168h has no effect, the setting was removed: KAFKA_RETENTION takes both, such as KAFKA_RETENTION=0s,batches=168h; take it out"
	)
	tests := map[string]struct {
		environ  map[string]string
		told     string // the beginning of the only line; empty: none
		problems string
	}{
		"nothing set":                 {environ: nil},
		"set to nothing":              {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "", "KAFKA_RETENTION_TOPICS": ""}},
		"other settings":              {environ: map[string]string{"STREAM_SESSION_TIMEOUT": "20s", "PATH": "/bin"}},
		"what holds anyway":           {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "10s"}},
		"what holds, in other words":  {environ: map[string]string{"STREAM_STALL_AFTER": "600s", "STREAM_BATCH_BYTES": "786432.0"}},
		"another value":               {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "30s"}, told: "STREAM_REQUEST_TIMEOUT=30s has no effect, the setting was removed: " + lines},
		"no value at all":             {environ: map[string]string{"STREAM_REQUEST_TIMEOUT": "soon"}, told: "STREAM_REQUEST_TIMEOUT=soon has no effect"},
		"a value with a password":     {environ: map[string]string{"STREAM_LINGER": "http://u:hunter2@h\x1b"}, told: "STREAM_LINGER=http://***@h"},
		"what decides about deletion": {environ: map[string]string{"KAFKA_RETENTION_TOPICS": "batches=168h"}, problems: moved},
		"both": {
			environ: map[string]string{"KAFKA_RETENTION_TOPICS": "batches=168h", "STREAM_REQUEST_TIMEOUT": "30s"},
			told:    "STREAM_REQUEST_TIMEOUT=30s has no effect", problems: moved,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := TellRemoved(&out, tt.environ)
			if got := out.String(); !strings.HasPrefix(got, tt.told) || tt.told == "" && got != "" || strings.Count(got, "\n") > 1 || strings.ContainsAny(got, "\x1b") {
				t.Errorf("told %q, want one line that begins with %q", got, tt.told)
			}
			if text := errorText(err); text != tt.problems {
				t.Errorf("error %q, want %q", text, tt.problems)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRemovedSettingsStandNowhere looks for them where people read what they may set.
func TestRemovedSettingsStandNowhere(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	names := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(removals)), "|") + `)\b`)
	looked := 0
	for _, place := range []string{"README.md", "docs", "deploy", "examples", "Makefile", "lab/experiments", "clients/python/README.md", "clients/python/src", "clients/python/examples"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, place), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			looked++
			if found := names.FindString(string(raw)); found != "" {
				t.Errorf("%s names %s, which was removed", path, found)
			}
			return nil
		}))
	}
	if looked < 100 {
		t.Errorf("looked into %d files only", looked)
	}
}
