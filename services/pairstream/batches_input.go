//go:build cgo

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/plans"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
)

// planInput is what a plan is made of: tars, or Parquet files whose images go into tars of the plan.
type planInput struct {
	tars   []string
	tables []string
	roots  []string // of the tars
}

// findPlanInput tells tars from Parquet files. A folder without tars stands for its Parquet files.
func findPlanInput(paths []string, images string) (in planInput, err error) {
	for _, p := range paths {
		tables, err := parquetFiles(p)
		if err != nil {
			return in, err
		}
		if in.tables = append(in.tables, tables...); len(tables) == 0 {
			in.tars = append(in.tars, p)
		}
	}
	if len(in.tables) == 0 {
		in.roots, err = shard.Roots(in.tars)
		return in, err
	}
	if len(in.tars) > 0 {
		return in, fmt.Errorf("%s is no Parquet file, and %s is: want one kind for a plan, as rows are counted through all files", in.tars[0], in.tables[0])
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		return in, err
	}
	if images, err = filepath.Abs(images); err == nil {
		images, err = filepath.EvalSymlinks(images) // as references name it
	}
	in.tars, in.roots = []string{images}, []string{shard.FileURI(images)}
	return in, err
}

// parquetFiles returns the Parquet files that a path names, in lexical order, if it names any.
func parquetFiles(path string) ([]string, error) {
	table := strings.EqualFold(filepath.Ext(path), ".parquet")
	switch {
	case shard.IsRemote(path) && table:
		return nil, fmt.Errorf("%s: Parquet files are read from disks: copy them first", path)
	case shard.IsRemote(path):
		return nil, nil
	case table:
		_, err := os.Stat(path)
		return []string{path}, err
	}
	if _, err := shard.Tars([]string{path}); !errors.Is(err, shard.ErrNoTars) {
		return nil, nil // tars, or what the producer refuses
	}
	return filepath.Glob(filepath.Join(path, "*.parquet"))
}

// abandon removes what a run has begun that found no data, so that the next one may have other data.
func (p *planning) abandon() error {
	if _, err := os.Stat(p.broker()); !errors.Is(err, fs.ErrNotExist) {
		return err // nil: an earlier run has come further
	}
	return errors.Join(os.RemoveAll(p.work()), os.RemoveAll(p.images()))
}

// errNoBatches means that no pair was usable.
var errNoBatches = errors.New("there is no mini-batch, as no pair is usable")

// tellAside prints what the stages have set aside, by reason. Where that is all, it is an error.
func (p *planning) tellAside(ctx context.Context, log *stream.Log) error {
	count, first := map[string]int{}, map[string]string{}
	for d, err := range log.DeadLetters(ctx) {
		if err != nil {
			return fmt.Errorf("counting dead letters: %w", err)
		}
		kind, _, _ := strings.Cut(d.Reason, ":")
		count[kind]++
		first[kind] = cmp.Or(first[kind], d.Reason)
	}
	said := []string{}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		said = append(said, fmt.Sprintf("set aside %d, the first by: %s", count[kind], first[kind]))
	}
	if p.batches.Load() == 0 {
		return fmt.Errorf("%w: %s", errNoBatches, strings.Join(said, "; "))
	}
	for _, line := range said {
		fmt.Fprintln(p.w, line)
	}
	return nil
}

// readKeys reads which key each image has in its tar.
func (p *planning) readKeys(ctx context.Context) (plans.Keys, error) {
	keys := map[plans.Place]string{}
	why := ""
	totals, err := shard.Scan(ctx, p.tars, shard.Visitor{
		Example: func(ex shard.Example) error {
			keys[plans.Place{URI: ex.Image.URI, Offset: ex.Image.Offset}] = ex.Key
			p.pairs.Add(int64(len(ex.Captions)))
			return nil
		},
		Problem: func(problem shard.Problem) error {
			why = cmp.Or(why, ": "+problem.String())
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if totals.Pairs == 0 {
		return nil, fmt.Errorf("%s has no pairs%s", strings.Join(p.sources, ", "), why)
	}
	return func(at plans.Place) string { return keys[at] }, nil
}

// modelsAreThere refuses models that are not there before anything is written.
func modelsAreThere(environ map[string]string) error {
	for _, name := range planModels {
		if path := environ[name]; path != "" {
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("%s is %q (--weights sets it): %w; `pairstream bootstrap` trains a first model", name, path, err)
			}
		}
	}
	return nil
}

// planModels are the variables of the models.
var planModels = []string{"ENCODER_CHECKPOINT", "COND_CHECKPOINT"}
