//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/shard"
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
