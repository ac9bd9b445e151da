package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

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
