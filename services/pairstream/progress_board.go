package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pairstream/pairstream/internal/tensorboard"
)

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
