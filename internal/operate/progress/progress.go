// Package progress prints the reports of training for `pairstream progress`: as a table, JSON, CSV or TensorBoard's
// events, or to MLflow and Weights & Biases through the Python package.
//
// It reads the topic progress and prints every report once. A step that was repeated after a crash keeps its first
// position and shows its last report. Records that are not reports are counted and left out.
package progress

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

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/tensorboard"
	"github.com/pairstream/pairstream/schemas"
)

// Options select the reports and the format. JSON, CSV, Board and Tracker.To exclude one another. Without any of them,
// Run prints a table.
type Options struct {
	JSON, CSV bool
	Board     string   // folder of TensorBoard's event files
	Kinds     []string // of reports; empty: all
	Follow    bool     // continue with new reports until the context ends, which is not an error
	Tracker   Tracker
	Manifest  string // file of the run's manifest, for trackers and TensorBoard; empty: the run.env in Dir
	Dir       string // folder of the log
}

// Run prints the reports of log to out, and the number of unreadable records to warn.
func (o Options) Run(ctx context.Context, log *stream.Log, out, warn io.Writer) error {
	if err := o.Tracker.check(); err != nil {
		return err
	}
	bounds, err := log.Bounds(ctx, schemas.ProgressLog, 0)
	if err != nil {
		return err
	}
	reports, unread, err := readProgress(ctx, log, bounds.End, o.Kinds)
	if unread != nil {
		fmt.Fprintln(warn, unread)
	}
	if err != nil {
		return err
	}
	var run *about
	if o.Tracker.To != "" || o.Board != "" {
		if run, err = o.describe(ctx, log); err != nil {
			return err
		}
	}
	switch {
	case o.Tracker.To != "":
		return o.Tracker.run(ctx, log.Config().Namespace, out, warn, func(ctx context.Context, w io.Writer) error {
			if err := run.write(w); err != nil {
				return err
			}
			if err := printProgressJSON(w, reports); err != nil || !o.Follow {
				return err
			}
			return o.goOn(ctx, log, bounds.End, warn, func(r reported) error { return printProgressJSON(w, []reported{r}) })
		})
	case o.Board != "":
		return writeBoard(out, o.Board, log.Config().Namespace, run, reports)
	case o.JSON:
		err = printProgressJSON(out, reports)
	case o.CSV:
		return printProgressCSV(out, reports)
	default:
		err = printProgress(out, reports)
	}
	if err != nil || !o.Follow {
		return err
	}
	return o.goOn(ctx, log, bounds.End, warn, func(r reported) error {
		if o.JSON {
			return printProgressJSON(out, []reported{r})
		}
		_, err := fmt.Fprintf(out, "%s  %d  %s  %s\n", r.when(), r.Step, r.Kind, r.said())
		return err
	})
}

// reported is the printed form of a report of training.
type reported struct {
	Kind       string           `json:"kind"`
	Step       int64            `json:"step"`
	Time       *time.Time       `json:"time,omitempty"`
	Values     schemas.Measures `json:"values,omitempty"`
	Checkpoint string           `json:"checkpoint,omitempty"`
}

// readProgress returns the reports of some kinds, or of all, up to the offset end. The last report of a kind and step
// replaces earlier ones. unread counts the records that are not reports, or of a newer version.
func readProgress(ctx context.Context, log *stream.Log, end int64, kinds []string) (reports []reported, unread, err error) {
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
	for rec, err := range log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, end) {
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", schemas.ProgressLog, err)
		}
		r, err := reportOf(rec)
		if err != nil {
			strange, why = strange+1, err
			continue
		}
		if len(kinds) > 0 && !slices.Contains(kinds, r.Kind) {
			continue
		}
		key := place{r.Kind, r.Step}
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

// reportOf reads a record of the topic progress.
func reportOf(rec stream.Record) (reported, error) {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	p, ok := value.(*schemas.Progress)
	if err == nil && !ok {
		err = fmt.Errorf("offset %d has a record of another kind, %s", rec.Offset, rec.Schema)
	}
	if err != nil {
		return reported{}, err
	}
	r := reported{Kind: p.Kind, Step: p.Step, Values: p.Values, Checkpoint: p.Checkpoint}
	if p.Time != 0 {
		when := time.UnixMilli(p.Time).UTC()
		r.Time = &when
	}
	return r, nil
}

// goOn calls each with every report from an offset on, until ctx ends.
func (o Options) goOn(ctx context.Context, log *stream.Log, from int64, warn io.Writer, each func(reported) error) error {
	reader := log.OpenReader(schemas.ProgressLog, 0, stream.Position{Offset: from}, stream.ReaderOptions{})
	defer reader.Close()
	for {
		rec, err := reader.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, stream.ErrPoison):
		case err != nil:
			return fmt.Errorf("reading %s: %w", schemas.ProgressLog, err)
		}
		var r reported
		if err == nil {
			r, err = reportOf(rec)
		}
		if err != nil {
			fmt.Fprintf(warn, "a record of %s is left out: %v\n", schemas.ProgressLog, err)
			continue
		}
		if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, r.Kind) {
			continue
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

// when returns the time of a report, "" if it has none.
func (r *reported) when() string {
	if r.Time == nil {
		return ""
	}
	return r.Time.Format(time.RFC3339)
}

// said returns the content of a report as text.
func (r *reported) said() string {
	said := r.Checkpoint
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		said += fmt.Sprintf(" %s=%.5g", name, r.Values[name])
	}
	return strings.TrimSpace(said)
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
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", r.when(), r.Step, r.Kind, r.said())
	}
	return w.Flush()
}

// boardFile is the name of TensorBoard's event file. TensorBoard looks for "tfevents" in names.
const boardFile = "events.out.tfevents.pairstream"

// writeBoard writes the settings of a run as hyperparameters, and the values of its reports as curves, in a folder of the namespace, so that runs can be compared.
func writeBoard(out io.Writer, dir, namespace string, run *about, reports []reported) (err error) {
	path := filepath.Join(dir, namespace, boardFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("--tensorboard: %w", err)
	}
	file, err := os.Create(path) // in place, because TensorBoard keeps reading the same file
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
	if err := w.Hyperparameters(began, run.Params); err != nil {
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
