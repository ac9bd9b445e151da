//go:build cgo

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestUpReadsAFileAndPrintsThreeLines moves settings from the environment to a file.
func TestUpReadsAFileAndPrintsThreeLines(t *testing.T) {
	if apart(t) {
		return
	}
	in := setUpPipeline(t, 8)
	for _, variable := range []string{"BATCH_SIZE", "LOG_LEVEL", "CLUSTERS", "CONSOLE_ADDR"} {
		t.Setenv(variable, "")
	}
	must.Do(t, os.WriteFile(in("pairstream.toml"), []byte(`namespace = "filed"
log_level = "warn"
batch_size = 4
[indexer]
clusters = 3
[console]
console_addr = "127.0.0.1:0"
`), 0o600))
	read, write := io.Pipe()
	root := newRoot()
	root.SetArgs([]string{"up", "--config", in("pairstream.toml"), "--addr", "127.0.0.1:0", "--data", in("data")})
	root.SetOut(write)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- root.ExecuteContext(ctx)
		write.Close()
	}()
	var said []string
	for lines := bufio.NewScanner(read); lines.Scan(); {
		if said = append(said, lines.Text()); strings.HasPrefix(lines.Text(), "waiting") {
			cancel()
		}
	}
	cancel()
	must.Check(t, <-done)
	for i, want := range []string{"broker: 127.0.0.1:", "console: http://127.0.0.1:", "waiting for pairs: KAFKA_BROKERS=127.0.0.1:"} {
		if len(said) != 3 || !strings.HasPrefix(said[i], want) {
			t.Fatalf("up prints %q, and line %d is not %q", said, i+1, want)
		}
	}
	settings := string(must.Get(os.ReadFile(filepath.Join(in("data"), "filed.run.env")))(t))
	if !strings.Contains(settings, "\nBATCH_SIZE=4\n") || !strings.Contains(settings, "\nCLUSTERS=3\n") {
		t.Errorf("the run's settings are not those of the file:\n%s", settings)
	}
}
