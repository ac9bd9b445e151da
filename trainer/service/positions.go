package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// lanePosition is the trainer's position in one lane.
type lanePosition struct {
	Lane     int              `json:"lane"`
	Scored   stream.Position  `json:"scored"`          // next record to read
	Features int64            `json:"features"`        // seq of the next feature block
	Ended    bool             `json:"ended"`           // a final seal was read
	Read     string           `json:"read,omitempty"`  // [recordID] of the last record before Scored; empty: none, or unknown
	Last     bool             `json:"last,omitempty"`  // the lane has come to its last group
	Epoch    *stream.Position `json:"epoch,omitempty"` // first batch of the epoch whose features are to be made anew; nil: none
	Again    int64            `json:"again,omitempty"` // batches whose features are due, from Epoch on; 0: the epoch goes on
	Left     int64            `json:"left,omitempty"`  // batches from here to the end of its last group
}

// moveTo moves the position past a record. Records that an operator has skipped there are still to be read.
func (l *lanePosition) moveTo(rec stream.Record) { l.Scored, l.Read = rec.Next(), recordID(rec) }

// positions are a checkpoint's positions in the log. Training resumes from there as if it had never stopped.
type positions struct {
	Lanes []lanePosition `json:"lanes"`
	Turn  int            `json:"turn"`            // index in Lanes of the first lane to consider for the next step
	Log   *origin        `json:"log,omitempty"`   // nil: it was not recorded yet
	Decay int64          `json:"decay,omitempty"` // batches of all lanes over which the learning rate decays; 0: it does not decay yet
	// Judged is the state of the evaluations; nil: there was none. Only positions in checkpoints have it.
	Judged *evaluated `json:"eval,omitempty"`
}

// passOver counts lanes that ended without a last group: those from the turn up to lane i.
func (p *positions) passOver(i int) {
	for ; p.Turn != i; p.Turn = (p.Turn + 1) % len(p.Lanes) {
		p.Lanes[p.Turn].Last, p.Lanes[p.Turn].Left = true, 0
	}
}

// pass counts a batch of lane i and returns the progress of the learning rate's decay. The decay begins when every lane
// has reached its last group, and takes all remaining batches. The batches state how many remain, so a repeated step
// decays by the same amount.
func (p *positions) pass(i int, b *schemas.ScoredBatch) trainer.Decay {
	lane := &p.Lanes[i]
	lane.Last, lane.Left = b.Left > 0, max(0, b.Left-1)
	left := int64(0)
	for _, l := range p.Lanes {
		if !l.Last {
			return trainer.Decay{}
		}
		left += l.Left
	}
	if p.Decay == 0 {
		p.Decay = left + 1
	}
	return trainer.Decay{Batch: p.Decay - left, Of: p.Decay}
}

// startOf returns the positions of a trainer that has read nothing.
func startOf(lanes []int) positions {
	var p positions
	for _, lane := range lanes {
		p.Lanes = append(p.Lanes, lanePosition{Lane: lane})
	}
	return p
}

// parsePositions decodes the positions of a checkpoint, which must be of the same lanes.
func parsePositions(raw json.RawMessage, lanes []int) (positions, error) {
	var p positions
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("reading the checkpoint's positions: %w", err)
	}
	var found []int
	for _, l := range p.Lanes {
		found = append(found, l.Lane)
	}
	if fmt.Sprint(found) != fmt.Sprint(lanes) || p.Turn < 0 || p.Turn >= len(lanes) {
		return p, fmt.Errorf("the checkpoint was trained on lanes %v, this trainer has %v (LANES)", found, lanes)
	}
	return p, nil
}

func (p positions) clone() positions {
	p.Lanes = append([]lanePosition(nil), p.Lanes...)
	return p
}

// know replaces seqs in last that retention has removed from the log by those of the checkpoint.
func (p positions) know(last map[int]int64, logger *slog.Logger) {
	for _, l := range p.Lanes {
		if last[l.Lane] == gone {
			last[l.Lane] = l.Features - 1
			logger.Warn("retention has removed all features of a lane; going on from the checkpoint", keyLane, l.Lane, keySeq, l.Features)
		}
	}
}

// ended reports whether every lane has ended.
func (p positions) ended() bool {
	return !slices.ContainsFunc(p.Lanes, func(l lanePosition) bool { return !l.Ended })
}

// begin compares the folder with the place. An empty folder gets the newest checkpoint of the place. A folder that is
// behind stays as it is: an operator may have gone back.
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
			keyStage, Name, keyPlace, u.place, keyStep, steps[0], keyDir, u.dir, keyFolderStep, found[0].Step)
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
		if useless(err) || errors.Is(err, fs.ErrNotExist) {
			u.logger.Warn("passing over a checkpoint", keyStage, Name, keyPlace, u.place, keyErr, err)
			continue
		}
		if err != nil {
			return err
		}
		u.logger.Info("CHECKPOINT_DIR has no checkpoint: restored the newest one of CHECKPOINT_UPLOAD", keyStage, Name, keyPlace, u.place, keyStep, step, keyDir, u.dir)
		if _, ok := there[bestFile]; !ok {
			return nil
		}
		if err := u.get(ctx, bestFile); !useless(err) {
			return err
		}
		return nil
	}
	return errors.New("none of its checkpoints is whole; restore one to CHECKPOINT_DIR, or give another place to begin anew")
}

// useless reports whether a checkpoint is damaged, or has weights that are no numbers.
func useless(err error) bool {
	return errors.Is(err, trainer.ErrTorn) || errors.Is(err, trainer.ErrNotFinite)
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
