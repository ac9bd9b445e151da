package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/tensorboard"
	"github.com/pairstream/pairstream/schemas"
)

func newProgressCommand() *cobra.Command {
	var dir, board string
	var kinds []string
	var asJSON, asCSV bool
	cmd := &cobra.Command{
		Use:   "progress",
		Short: "print what training has reported: losses, learning rate, evaluations, checkpoints",
		Long: "Prints the reports of the topic progress, oldest first. A step that was repeated after a crash appears once, with its\n" +
			"last report. --tensorboard writes curves that TensorBoard shows: `tensorboard --logdir DIR`.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = looking(&dir, func(cmd *cobra.Command, log *stream.Log, _ []string) error {
		reports, unread, err := readProgress(cmd.Context(), log, kinds)
		if unread != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), unread)
		}
		switch {
		case err != nil:
			return err
		case board != "":
			return writeBoard(cmd.OutOrStdout(), board, log.Config().Namespace, reports)
		case asJSON:
			return printProgressJSON(cmd.OutOrStdout(), reports)
		case asCSV:
			return printProgressCSV(cmd.OutOrStdout(), reports)
		}
		return printProgress(cmd.OutOrStdout(), reports)
	})
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	f.BoolVar(&asCSV, "csv", false, "print CSV, with a column for each value")
	f.StringVar(&board, "tensorboard", "", "folder for a file of TensorBoard's, written anew; nothing else is printed")
	f.StringSliceVar(&kinds, "kind", nil, "only these: step, eval, checkpoint")
	cmd.MarkFlagsMutuallyExclusive("json", "csv", "tensorboard")
	dataFlag(cmd, &dir)
	return cmd
}

// reported is a report of training as it is printed.
type reported struct {
	Kind       string           `json:"kind"`
	Step       int64            `json:"step"`
	Time       *time.Time       `json:"time,omitempty"`
	Values     schemas.Measures `json:"values,omitempty"`
	Checkpoint string           `json:"checkpoint,omitempty"`
}

// readProgress returns the reports of some kinds, or of all. The last one of a kind and step counts, in its place. unread
// says how many records are no reports, or of a newer version.
func readProgress(ctx context.Context, log *stream.Log, kinds []string) (reports []reported, unread, err error) {
	known := []string{schemas.ProgressStep, schemas.ProgressEval, schemas.ProgressCheckpoint}
	for _, kind := range kinds {
		if !slices.Contains(known, kind) {
			return nil, nil, fmt.Errorf("--kind is %q, want some of %s", kind, strings.Join(known, ", "))
		}
	}
	type place struct {
		kind string
		step int64
	}
	var strange int
	var why error
	at := make(map[place]int)
	for rec, err := range log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", schemas.ProgressLog, err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		p, ok := value.(*schemas.Progress)
		if err == nil && !ok {
			err = fmt.Errorf("offset %d has a record of another kind, %s", rec.Offset, rec.Schema)
		}
		if err != nil {
			strange, why = strange+1, err
			continue
		}
		if len(kinds) > 0 && !slices.Contains(kinds, p.Kind) {
			continue
		}
		r := reported{Kind: p.Kind, Step: p.Step, Values: p.Values, Checkpoint: p.Checkpoint}
		if p.Time != 0 {
			when := time.UnixMilli(p.Time).UTC()
			r.Time = &when
		}
		key := place{p.Kind, p.Step}
		if i, again := at[key]; again {
			reports[i] = r
			continue
		}
		at[key] = len(reports)
		reports = append(reports, r)
	}
	if strange > 0 {
		unread = fmt.Errorf("records of %s left out: %d; the last one: %w", schemas.ProgressLog, strange, why)
	}
	return reports, unread, nil
}

// when returns the time of a report, empty where it has none.
func (r *reported) when() string {
	if r.Time == nil {
		return ""
	}
	return r.Time.Format(time.RFC3339)
}

// valuesOf returns the names of all values of reports, sorted.
func valuesOf(reports []reported) []string {
	names := make(map[string]bool)
	for _, r := range reports {
		for name := range r.Values {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func printProgressJSON(out io.Writer, reports []reported) error {
	e := json.NewEncoder(out)
	for _, r := range reports {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func printProgressCSV(out io.Writer, reports []reported) error {
	names := valuesOf(reports)
	w := csv.NewWriter(out)
	err := w.Write(append([]string{"kind", "step", "time", "checkpoint"}, names...))
	for _, r := range reports {
		row := []string{r.Kind, strconv.FormatInt(r.Step, 10), r.when(), r.Checkpoint}
		for _, name := range names {
			cell := ""
			if v, ok := r.Values[name]; ok {
				cell = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, cell)
		}
		err = errors.Join(err, w.Write(row))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}

// printProgress prints a line for each report.
func printProgress(out io.Writer, reports []reported) error {
	if len(reports) == 0 {
		_, err := fmt.Fprintln(out, "no reports yet: the trainer writes one every 10 steps, and one with every checkpoint")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tSTEP\tKIND\tREPORT")
	for _, r := range reports {
		said := r.Checkpoint
		for _, name := range slices.Sorted(maps.Keys(r.Values)) {
			said += fmt.Sprintf(" %s=%.5g", name, r.Values[name])
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.when(), r.Step, r.Kind, strings.TrimSpace(said))
	}
	return w.Flush()
}

// boardFile is the name of the file for TensorBoard, which wants "tfevents" in it.
const boardFile = "events.out.tfevents.pairstream"

// writeBoard writes the values of reports as curves: in a folder of the namespace, so that runs can be compared.
func writeBoard(out io.Writer, dir, namespace string, reports []reported) (err error) {
	path := filepath.Join(dir, namespace, boardFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("--tensorboard: %w", err)
	}
	file, err := os.Create(path) // in its place: TensorBoard goes on reading it
	if err != nil {
		return fmt.Errorf("--tensorboard: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	began := time.Unix(0, 0)
	if len(reports) > 0 && reports[0].Time != nil {
		began = *reports[0].Time
	}
	w, err := tensorboard.NewWriter(file, began)
	if err != nil {
		return err
	}
	points := 0
	for _, r := range reports {
		if len(r.Values) == 0 {
			continue
		}
		values := make(map[string]float64, len(r.Values))
		for name, v := range r.Values {
			values[r.Kind+"/"+name] = v
		}
		at := began
		if r.Time != nil {
			at = *r.Time
		}
		if err := w.Scalars(at, r.Step, values); err != nil {
			return err
		}
		points += len(values)
	}
	_, err = fmt.Fprintf(out, "wrote %d points to %s: `tensorboard --logdir %s` shows them\n", points, path, dir)
	return err
}
