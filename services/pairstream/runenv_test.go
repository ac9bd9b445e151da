//go:build cgo

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestRefusedStartLeavesTheSettings starts a second run on a folder whose broker runs. It is refused, and the settings
// of the first stay.
func TestRefusedStartLeavesTheSettings(t *testing.T) {
	dir := t.TempDir()
	for _, s := range config.Settings(pipeline.Settings{}) {
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
	must.Do(t, pipeline.LeaveSettings(dir, cfg, map[string]string{"SEED": "3"}))
	before := must.Get(os.ReadFile(rundir.EnvFile(dir, "")))(t)
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	_, closeLog, err := pipeline.OpenLog(t.Context(), rt, cfg, "127.0.0.1:0", filepath.Join(dir, "broker"))
	must.Do(t, err)
	if _, err := command(t, "up", "--data", dir, "--addr", "127.0.0.1:0"); err == nil || strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a second run on the folder: %v", err)
	}
	if after := must.Get(os.ReadFile(rundir.EnvFile(dir, "")))(t); !bytes.Equal(before, after) {
		t.Errorf("the refused run left\n%s\nin the place of\n%s", after, before)
	}
	must.Do(t, closeLog())
}
