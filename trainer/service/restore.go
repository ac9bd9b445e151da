package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/atomicfile"
	"github.com/pairstream/pairstream/trainer"
)

// begin compares the folder with the place. An empty folder gets the newest checkpoint of the place. A folder that is behind
// stays as it is: an operator may have gone back.
func (u *uploads) begin(ctx context.Context, here origin) error {
	if u == nil {
		return nil
	}
	if err := u.fetch(ctx, here); err != nil {
		return uploadError(u.place, err)
	}
	return nil
}

func (u *uploads) fetch(ctx context.Context, here origin) error {
	there, err := u.to.Sizes(ctx)
	if err != nil {
		return fmt.Errorf("listing the checkpoints: %w", err)
	}
	var steps []int64
	for name := range there {
		if step, ok := trainer.CheckpointStep(name); ok {
			steps = append(steps, step)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	slices.Sort(steps)
	slices.Reverse(steps)
	if err := u.checkOrigin(ctx, steps[0], here); err != nil {
		return err
	}
	found, err := trainer.Checkpoints(u.dir)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return u.restore(ctx, steps, there)
	case found[0].Step < steps[0]:
		u.logger.Warn("CHECKPOINT_UPLOAD has a newer checkpoint than CHECKPOINT_DIR; training goes on from the folder's; to go on from the newer one, stop the trainer and move the checkpoints out of the folder",
			"stage", Name, "place", u.place, "step", steps[0], "dir", u.dir, "folder_step", found[0].Step)
	}
	return nil
}

// checkOrigin refuses a place that has checkpoints of another log.
func (u *uploads) checkOrigin(ctx context.Context, step int64, here origin) error {
	name := trainer.CheckpointName(step)
	head, err := u.head(ctx, name)
	if errors.Is(err, trainer.ErrTorn) {
		return nil // restoring passes over it
	}
	var at positions
	if err == nil {
		err = json.Unmarshal(head.Positions, &at)
	}
	if err == nil && at.Log != nil {
		err = at.Log.check(here)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// restore copies the newest whole checkpoint to the folder, and the best one.
func (u *uploads) restore(ctx context.Context, steps []int64, there map[string]int64) error {
	for _, step := range steps {
		name := trainer.CheckpointName(step)
		err := u.get(ctx, name)
		if errors.Is(err, trainer.ErrTorn) || errors.Is(err, fs.ErrNotExist) {
			u.logger.Warn("passing over a checkpoint", "stage", Name, "place", u.place, "err", err)
			continue
		}
		if err != nil {
			return err
		}
		u.logger.Info("CHECKPOINT_DIR has no checkpoint: restored the newest one of CHECKPOINT_UPLOAD", "stage", Name, "place", u.place, "step", step, "dir", u.dir)
		if _, ok := there[bestFile]; !ok {
			return nil
		}
		if err := u.get(ctx, bestFile); !errors.Is(err, trainer.ErrTorn) {
			return err
		}
		return nil
	}
	return errors.New("none of its checkpoints is whole; restore one to CHECKPOINT_DIR, or give another place to begin anew")
}

// get copies an object to the folder, where it appears when it is whole.
func (u *uploads) get(ctx context.Context, name string) error {
	r, err := u.to.Open(ctx, name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer r.Close()
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	file, err := atomicfile.Create(filepath.Join(u.dir, name), 0o644)
	if err != nil {
		return err
	}
	if _, err = io.Copy(file, r); err == nil {
		err = trainer.CheckFile(file.Name())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("fetching %s: %w", name, err), file.Abort())
	}
	return file.Commit()
}
