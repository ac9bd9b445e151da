package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/process/config"
)

// consoleSettings are the console's own, and those of other stages that it shows results of. A build without cgo does
// not have the stages' own structs.
type consoleSettings struct {
	Console console.Settings
	Group   groupSettings
	Shown   shownSettings
}

// shownSettings are settings of stages whose results the console shows.
type shownSettings struct {
	Roots     []string       `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	High      float64        `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	Low       float64        `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
	LiveToken display.Secret `env:"LIVE_TOKEN" desc:"token that live search asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`
}

// Validate refuses what the trainer would refuse.
func (s shownSettings) Validate() error {
	if !(s.Low >= 0 && s.Low <= s.High && s.High <= 1) {
		return fmt.Errorf("ECM_LOW is %g and ECM_HIGH is %g, want 0 <= ECM_LOW <= ECM_HIGH <= 1", s.Low, s.High)
	}
	return nil
}

func newConsoleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "console",
		Long: "Serves pages at CONSOLE_ADDR that show a run, with pictures, while it runs and afterwards. It reads the log and the\n" +
			"bucket, and writes nothing but judgements. `pairstream up` has it inside.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		s, err := consoleSettingsIn(at.dir)
		if err != nil {
			return err
		}
		if s.Console.Off() {
			return errors.New("CONSOLE_ADDR is off: want an address such as 127.0.0.1:8090")
		}
		listener, err := console.Listen(s.Console)
		if err != nil {
			return err
		}
		ctx := at.Context()
		fmt.Fprintf(at.OutOrStdout(), "console: %s\n", console.Address(listener))
		o := console.Options{Logger: logFrom(slog.LevelInfo).With(keyStage, "console")}
		if err := runConsole(ctx, at.log, s, listener, o); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return cmd
}

// consoleSettingsIn returns the settings of the console of a run whose log lies in dir.
func consoleSettingsIn(dir string) (s consoleSettings, err error) {
	environ, err := environIn(dir)
	if err != nil {
		return s, err
	}
	s, err = config.Parse[consoleSettings](environ)
	s.Console.Dir = consoleDir(environ, s.Console.Dir, dir)
	return s, err
}

// consoleDir puts the index beside the log, unless the environment says where.
func consoleDir(environ map[string]string, set, dir string) string {
	if environ["CONSOLE_DIR"] != "" {
		return set
	}
	return filepath.Join(dir, "console")
}

// runConsole serves the console until ctx ends. o has what is known of the stages beside it.
func runConsole(ctx context.Context, log *stream.Log, s consoleSettings, listener net.Listener, o console.Options) error {
	err := withIndex(ctx, log, s, o, func(o console.Options) error {
		server, err := console.New(o, listener)
		if err != nil {
			return err
		}
		return server.Run(ctx)
	})
	_ = listener.Close() // the server has closed it, unless it never began
	return err
}

// withIndex opens what the console reads, and calls do with it.
func withIndex(ctx context.Context, log *stream.Log, s consoleSettings, o console.Options, do func(console.Options) error) error {
	if err := log.EnsureTopics(ctx); err != nil { // judgements may be missing
		return err
	}
	o.Settings, o.Log, o.GroupSize = s.Console, log, s.Group.GroupSize
	o.High, o.Low, o.LiveToken = s.Shown.High, s.Shown.Low, s.Shown.LiveToken
	if len(s.Shown.Roots) > 0 {
		bucket, err := shard.OpenBucket(ctx, s.Shown.Roots, nil)
		if err != nil {
			return fmt.Errorf("BUCKET_ROOTS: %w", err)
		}
		defer bucket.Close()
		o.Images = shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: consoleImages})
	}
	x, err := index.Open(ctx, log, index.Options{Dir: s.Console.Dir, Pairs: s.Console.IndexPairs, High: o.High, Low: o.Low})
	if err != nil {
		return err
	}
	defer x.Close()
	o.Index = x
	return do(o)
}

// consoleImages bounds the decoded images that the console keeps besides thumbnails.
const consoleImages = 32 << 20
