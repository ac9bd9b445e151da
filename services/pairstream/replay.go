//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rerun"
	"github.com/pairstream/pairstream/internal/operate/rundir"
)

func newRunManifestCommand() *cobra.Command {
	var out, env string
	var open bool
	cmd := &cobra.Command{
		Use: "run-manifest",
		Long: "Writes the manifest of a run, from which `pairstream replay` repeats it. Settings come from the environment and, where it\n" +
			"has none, from the run.env that `pairstream up` and `pairstream demo` write to the folder of --data, or from the file of\n" +
			"--env. Secrets and connections are left out.",
		Args: cobra.NoArgs,
	}
	dir := dataFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m, err := rerun.Describe(cmd.Context(), *dir, env, open)
		if err != nil {
			return err
		}
		for _, change := range m.Changed {
			fmt.Fprintf(cmd.ErrOrStderr(), "the run changed between two starts, and a replay repeats the last start only: %s\n", display.Printable(change))
		}
		return writeManifest(m, out, cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "file to write; empty: print it")
	f.StringVar(&env, "env", "", "file of settings, NAME=VALUE a line; the environment takes precedence")
	f.BoolVar(&open, "open", false, "describe a run that has not ended, with its records so far")
	return cmd
}

func writeManifest(m *replay.Manifest, path string, stdout io.Writer) error {
	if path == "" {
		return m.Write(stdout)
	}
	write := atomicfile.Write
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		write = inPlace // a pipe, or /dev/stdout
	}
	if err := write(path, 0o644, m.Write); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	_, err := fmt.Fprintf(stdout, "wrote %s: %d lanes, seed %s, models %s\n", path, m.Lanes, m.Seed, fingerprints(m))
	return err
}

// inPlace writes to a file that cannot be replaced, such as a pipe.
func inPlace(path string, _ os.FileMode, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// fingerprints lists the fingerprints of the models, each with the topics that its model has written.
func fingerprints(m *replay.Manifest) string {
	var models []string
	topics := make(map[string][]string)
	for _, model := range m.Models {
		if topics[model.Fingerprint] == nil {
			models = append(models, model.Fingerprint)
		}
		topics[model.Fingerprint] = append(topics[model.Fingerprint], string(model.Topic))
	}
	for i, name := range models {
		models[i] = fmt.Sprintf("%s (%s)", name, strings.Join(topics[name], ", "))
	}
	return strings.Join(models, ", ")
}

func newReplayCommand() *cobra.Command {
	var o rerun.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use: "replay MANIFEST",
		Long: "Copies the pairs of a manifest to topics of their own, runs all stages on them in this process with the settings\n" +
			"of the manifest, and compares their records with the original: equal, or the first record that differs. It writes\n" +
			"nothing to the original. An interrupted replay continues when it is started again.",
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := replay.ReadManifest(args[0])
			if err != nil {
				return err
			}
			report, err := o.Run(cmd.Context(), m, cmd.ErrOrStderr())
			if err == nil {
				err = errors.Join(printReplay(cmd.OutOrStdout(), report, asJSON), report.Err())
			}
			if err != nil && cmd.Context().Err() != nil {
				return errors.New("interrupted; the same command goes on")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Namespace, "namespace", "", "prefix of the replay's topics")
	f.StringVar(&o.Checkpoints, "checkpoints", "", "folder of the replay's checkpoints; empty: replay/NAMESPACE in --data")
	f.StringArrayVar(&o.Set, "set", nil, "NAME=VALUE: a setting that differs from the manifest, such as a file that was moved")
	f.DurationVar(&o.Patience, "patience", 10*time.Minute, "how long to wait for a next record before the replay counts as stopped")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&o.WithoutTrainer, "without-trainer", false, withoutTrainerUsage)
	f.StringVar(&o.Dir, "data", rundir.DefaultData, rundir.DataUsage)
	return cmd
}

func printReplay(out io.Writer, report *replay.Report, asJSON bool) error {
	if asJSON {
		return printJSON(out, report)
	}
	return report.Print(out)
}
