package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// open resumes from the newest whole checkpoint, or begins with the initial weights. last has the seq of each lane's
// last features, and gets those that only the checkpoint knows.
func open(ctx context.Context, tools device.Tools, s Settings, last map[int]int64, copies *uploads) (*trainer.Trainer, positions, error) {
	here, err := originOf(ctx, tools.Log)
	if err == nil {
		err = copies.begin(ctx, here)
	}
	if err != nil {
		return nil, positions{}, err
	}
	core, at, err := openAnywhere(ctx, tools, s, last)
	if err != nil {
		return nil, at, err
	}
	if at.Log != nil {
		err = at.Log.check(here)
	}
	if err == nil {
		err = at.continues(ctx, tools.Log, last)
	}
	if err != nil {
		core.Free()
		return nil, at, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	if at.Log == nil && core.Steps() > 0 {
		tools.Instruments.Log.Warn("the checkpoint does not say which log it belongs to; from the next one on it does", keyNamespace, here.Namespace, keyCluster, here.Cluster)
	}
	at.Log = &here
	return core, at, nil
}

func openAnywhere(ctx context.Context, tools device.Tools, s Settings, last map[int]int64) (*trainer.Trainer, positions, error) {
	path, bad, err := trainer.LatestCheckpoint(s.Dir)
	for _, b := range bad {
		tools.Instruments.Log.Warn("passing over a checkpoint", keyErr, b)
	}
	switch {
	case err != nil:
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	case path == "" && len(bad) > 0:
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: no checkpoint in it is whole; restore one, or empty the folder to begin anew: %w", s.Dir, errors.Join(bad...))
	case path == "":
		return begin(ctx, tools, s, last)
	}
	worker, err := tools.Worker()
	if err != nil {
		return nil, positions{}, err
	}
	core, raw, err := trainer.Resume(ctx, worker, path, s.Options())
	if err != nil {
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	at, err := parsePositions(raw, slices.Sorted(maps.Keys(last)))
	if err != nil {
		core.Free()
		return nil, at, fmt.Errorf("CHECKPOINT_DIR is %q: %s: %w", s.Dir, path, err)
	}
	if err := keepBest(s.Dir, at.Judged, core.Steps(), path); err != nil { // a crash may have come between the two
		core.Free()
		return nil, at, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	at.know(last, tools.Instruments.Log)
	tools.Instruments.Log.Info("resuming", keyPath, path, keyStep, core.Steps())
	return core, at, nil
}

// begin starts with new weights.
func begin(ctx context.Context, tools device.Tools, s Settings, last map[int]int64) (*trainer.Trainer, positions, error) {
	if s.Init == "" {
		return nil, positions{}, fmt.Errorf("TRAIN_INIT is empty and CHECKPOINT_DIR %q has no checkpoint: want weights to start from; `pairstream bootstrap` makes them", s.Dir)
	}
	at := startOf(slices.Sorted(maps.Keys(last)))
	trained := int64(0)
	for lane, seq := range last {
		if seq == gone {
			return nil, at, fmt.Errorf("CHECKPOINT_DIR %q has no checkpoint, and retention has removed all features of lane %d: nothing says how many there were; restore a checkpoint, or train in another NAMESPACE", s.Dir, lane)
		}
		trained += seq + 1
	}
	switch {
	case trained > 0 && s.From == FromNow:
		var err error
		if at, err = behindFeatures(ctx, tools.Log, last); err != nil {
			return nil, at, err
		}
		tools.Instruments.Log.Warn("new weights begin behind the features in the log, as TRAIN_FROM=now says", keyBatches, trained)
	case trained > 0:
		tools.Instruments.Log.Warn("CHECKPOINT_DIR has no checkpoint and the log has features: new weights are trained on all its batches again, and those features stay as they are; TRAIN_FROM=now begins behind them",
			keyDir, s.Dir, keyBatches, trained)
	}
	worker, err := tools.Worker()
	if err != nil {
		return nil, positions{}, err
	}
	m, err := model.Load(ctx, worker, s.Init, model.LoadOptions{Trainable: true})
	if err != nil {
		return nil, positions{}, fmt.Errorf("TRAIN_INIT is %q: %w", s.Init, err)
	}
	core, err := trainer.New(ctx, m, s.Options())
	if err != nil {
		m.Free()
		return nil, positions{}, err
	}
	return core, at, nil
}

// behindFeatures finds the batch of each lane's last features, and returns the positions behind these batches.
func behindFeatures(ctx context.Context, log *stream.Log, last map[int]int64) (positions, error) {
	at := startOf(slices.Sorted(maps.Keys(last)))
	for i := range at.Lanes {
		lane := &at.Lanes[i]
		seq := last[lane.Lane]
		if seq < 0 {
			continue
		}
		err := published{log: log}.each(ctx, positions{Lanes: []lanePosition{{Lane: lane.Lane, Features: seq}}}, func(_ int, _ int64, block *schemas.FeatureBlock) error {
			return lane.moveBehind(ctx, log, block)
		})
		if err != nil {
			return at, fmt.Errorf("TRAIN_FROM is %q: looking for the end of training in lane %d: %w", FromNow, lane.Lane, err)
		}
		lane.Features = seq + 1
	}
	return at, nil
}

// moveBehind moves the position behind the batch of a feature block.
func (l *lanePosition) moveBehind(ctx context.Context, log *stream.Log, block *schemas.FeatureBlock) error {
	for rec, err := range log.Records(ctx, schemas.Scored, l.Lane, stream.Position{}, -1) {
		if err != nil {
			return err
		}
		batch, ok := stream.As[*schemas.ScoredBatch](rec)
		if !ok {
			continue // the training skips it as well
		}
		if batch.Group == block.Group && batch.Epoch == block.Epoch && batch.Sequence == block.Sequence {
			l.moveTo(rec)
			return nil
		}
	}
	return fmt.Errorf("group %s, epoch %d, batch %d is not in %s", block.Group, block.Epoch, block.Sequence, schemas.Scored)
}

// origin names the log that a checkpoint belongs to. Checkpoints that are older than this record have none.
type origin struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"` // as its brokers name it; empty: they name none
}

func originOf(ctx context.Context, log *stream.Log) (origin, error) {
	cluster, err := log.Cluster(ctx)
	return origin{log.Config().Namespace, cluster}, err
}

// errOtherLog is wrapped by errors about a checkpoint that belongs to another log.
var errOtherLog = errors.New("the checkpoint belongs to another log; give this trainer a CHECKPOINT_DIR of its own, or the log that it was trained on")

// check compares the origin of a checkpoint with the log at hand.
func (o origin) check(here origin) error {
	if o.Namespace != here.Namespace {
		return fmt.Errorf("it was trained on NAMESPACE %q, this is %q: %w", o.Namespace, here.Namespace, errOtherLog)
	}
	if o.Cluster != here.Cluster && o.Cluster != "" && here.Cluster != "" {
		return fmt.Errorf("it was trained on cluster %q, this is %q: %w", o.Cluster, here.Cluster, errOtherLog)
	}
	return nil
}

// recordID identifies the content of a record. Positions carry the id of the last record before them.
func recordID(rec stream.Record) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d ", rec.Schema, rec.Seq)
	h.Write(rec.Value)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// continues checks that a log goes on where the positions end. The features that the positions count must be there. The
// records before the positions must be those that were read. last has the seq of each lane's last features.
func (p positions) continues(ctx context.Context, log *stream.Log, last map[int]int64) error {
	for _, l := range p.Lanes {
		if l.Features > last[l.Lane]+1 {
			return fmt.Errorf("lane %d goes on at features %d, but the log ends at %d: %w", l.Lane, l.Features, last[l.Lane], errOtherLog)
		}
		bounds, err := log.Bounds(ctx, schemas.Scored, l.Lane)
		if err != nil {
			return err
		}
		if l.Scored.Offset > bounds.End {
			return fmt.Errorf("lane %d goes on at offset %d of %s, but the log ends at %d: %w", l.Lane, l.Scored.Offset, schemas.Scored, bounds.End, errOtherLog)
		}
		if l.Read == "" || l.Scored.Offset <= bounds.Start {
			continue // nothing was read, or retention has deleted it
		}
		before := stream.Position{Offset: l.Scored.Offset - 1, Seq: l.Scored.Seq - 1}
		for rec, err := range log.Records(ctx, schemas.Scored, l.Lane, before, l.Scored.Offset) {
			if err != nil {
				return fmt.Errorf("reading %s %d of lane %d again: %w", schemas.Scored, before.Seq, l.Lane, err)
			}
			if got := recordID(rec); got != l.Read {
				return fmt.Errorf("record %d of %s in lane %d is %s, the checkpoint was trained on %s: %w", rec.Seq, schemas.Scored, l.Lane, got, l.Read, errOtherLog)
			}
			break
		}
	}
	return nil
}

// folderLock keeps other trainers out of a checkpoint folder. The system releases it when the process ends.
type folderLock struct{ folder *os.File }

// lockFolder locks a folder, which it makes if need be. The lock is on the folder itself, so it leaves no file behind.
func lockFolder(dir string) (*folderLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another trainer is training in it: want a folder for each")
		}
		return nil, errors.Join(err, folder.Close())
	}
	return &folderLock{folder}, nil
}

func (l *folderLock) release() error { return l.folder.Close() }
