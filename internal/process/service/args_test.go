package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestStagesTakeAFileOfSettings checks the arguments of a stage. One that is mistyped is refused, and not ignored.
func TestStagesTakeAFileOfSettings(t *testing.T) {
	t.Cleanup(config.UseNone)
	path := filepath.Join(t.TempDir(), "pairstream.toml")
	must.Do(t, os.WriteFile(path, []byte("[encoder]\nencoder_batch_size = 7\n"), 0o600))
	t.Setenv("ENCODER_BATCH_SIZE", "")
	for args, want := range map[string]string{
		"":                       "",
		"--config " + path:       "7",
		"--config=" + path:       "7",
		"--config":               "flag needs an argument",
		"--config=":              "--config names no file",
		"--cofnig " + path:       "unknown flag: --cofnig",
		path:                     `got the argument "` + path + `", want: encoder [--config FILE]`,
		"--config " + path + "x": path + "x: there is no such file",
	} {
		config.UseNone()
		err := useArgs("encoder", strings.Fields(args))
		got := config.Environ()["ENCODER_BATCH_SIZE"]
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("encoder %s: %q, want %q", args, got, want)
		}
	}
	if err := useArgs("encoder", []string{"--help"}); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}
