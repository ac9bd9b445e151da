package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/atomicfile"
)

// BestBy names the figure by which the best checkpoint is chosen.
type BestBy string

const (
	// BestNone keeps none.
	BestNone BestBy = ""
	// BestRecall keeps the checkpoint with the highest mean of the six recalls.
	BestRecall BestBy = "recall"
	// BestMatching keeps the checkpoint with the lowest matching error.
	BestMatching BestBy = "matching_error"
)

func (b BestBy) valid() bool { return b == BestNone || b == BestRecall || b == BestMatching }

// better says whether a figure is better than another one.
func (b BestBy) better(value, than float64) bool {
	if b == BestMatching {
		return value < than
	}
	return value > than
}

// validateBest checks that the steps that are evaluated have checkpoints.
func (s Settings) validateBest() error {
	switch {
	case !s.Best.valid():
		return fmt.Errorf("CHECKPOINT_BEST is %q, want %q, %q or nothing", s.Best, BestRecall, BestMatching)
	case s.Best == BestNone:
		return nil
	case s.Eval.Every <= 0:
		return fmt.Errorf("CHECKPOINT_BEST is %q with EVAL_EVERY=%d, want EVAL_EVERY above 0: evaluations tell which one is best", s.Best, s.Eval.Every)
	case s.Every <= 0 || s.Eval.Every%s.Every != 0:
		return fmt.Errorf("EVAL_EVERY is %d with CHECKPOINT_BEST=%s, want a multiple of CHECKPOINT_EVERY=%d: only checkpoints that are written can stay", s.Eval.Every, s.Best, s.Every)
	}
	return nil
}

// bestFile is the name of the best checkpoint. It is the same file as the checkpoint of its step for as long as that is
// there.
const bestFile = "best.safetensors"

// keepBest gives the checkpoint of a step its second name, if it is the best so far.
func keepBest(dir string, j *judged, step int64, path string) error {
	if j == nil || j.Best == nil || j.Best.Step != step {
		return nil
	}
	if err := linkOrCopy(path, filepath.Join(dir, bestFile)); err != nil {
		return fmt.Errorf("keeping the best checkpoint: %w", err)
	}
	return nil
}

// linkOrCopy gives a file a second name, in place of what has it. On a disk without hard links it makes a copy.
func linkOrCopy(path, to string) error {
	temporary := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+"-link.tmp")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, temporary); err != nil {
		return copyFile(path, to)
	}
	if err := os.Rename(temporary, to); err != nil {
		return err
	}
	// Where both names are of one file already, rename leaves them alone.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(to))
}

func copyFile(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	return atomicfile.Write(to, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}
