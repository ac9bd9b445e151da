// Package materialize writes the mini-batches of a plan, with their images, into WebDataset tars, for training loops
// that have none of our code.
//
// The files of a plan and the places of its images come in. A folder comes out:
//
//	OUT/epoch-000/0000000.tar         the first full mini-batch, OUT/epoch-000/0000001.tar the second, ...
//	OUT/epoch-000/tars.jsonl          a line for each tar: its mini-batches, samples, bytes, images that cannot be read
//	OUT/epoch-000-short/0000000.tar   the mini-batches that have fewer samples, each in a tar
//	000-0000041-0007.jpg, .txt, .json entries: sample 7 of mini-batch 41 of epoch 0; .positive.jpg shows the same
//
// Guarantees:
//
//  1. Tars are in the order of training, and each holds whole mini-batches. Only full ones are in the folder of an
//     epoch, so a loader that takes BatchSize samples after one another gets these.
//  2. The bytes of an image are those of its source. A sample whose image cannot be read is left out and named.
//  3. A tar takes its name when it is whole, and the folder of an epoch when all of its tars are there. An
//     interrupted run continues behind its last tar. The same plan and images give the same bytes.
//  4. Memory holds the images of three mini-batches, or of those that share a tar.
//
// A run belongs to one goroutine.
package materialize

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
	"sync/atomic"
	"syscall"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
)

// Options name a plan and say how its tars are cut.
type Options struct {
	Plan      string // folder
	Files     []plans.File
	Low       float64 // a candidate below it is a negative
	BatchSize int     // samples of a full mini-batch
	PerTar    int     // full mini-batches in a tar
	Out       string
}

// Folder returns the folder that the tars go to.
func Folder(path string) ownedfolder.Folder {
	return ownedfolder.Folder{Setting: "--materialize", Path: path, Kind: "pairstream batches --materialize"}
}

// Epoch describes the tars of an epoch.
type Epoch struct {
	Folder         string // of full mini-batches, without that of short ones
	Full, Short    Part
	Missing        int    // images that cannot be read, of samples or of their positives
	FirstOfMissing string // why
}

// Part describes the tars of one folder.
type Part struct{ Tars, Batches, Samples int }

// Progress counts what a run has done.
type Progress struct {
	Batches atomic.Int64 // written, or found written
	Bytes   atomic.Int64 // of tars, of this run
}

// Run writes the tars of all epochs that are not there yet.
func Run(ctx context.Context, o Options, images Source, done *Progress) ([]Epoch, error) {
	at, err := Folder(o.Out).Claim()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(at)
	if err != nil {
		return nil, fmt.Errorf("--materialize is %s: %w", o.Out, err)
	}
	defer unlock()
	epochs := map[int32][]plans.File{}
	batches := 0
	for _, f := range o.Files {
		epochs[f.Epoch] = append(epochs[f.Epoch], f)
		batches += f.Batches
	}
	var all []Epoch
	for epoch := range int32(len(epochs)) {
		files := epochs[epoch]
		slices.SortFunc(files, func(a, b plans.File) int { return cmp.Compare(a.Lane, b.Lane) })
		e := &writing{o: o, epoch: epoch, files: files, images: images, progress: done, dir: at}
		told, err := e.run(ctx)
		if err != nil {
			return nil, whenFull(err, o.Out, done, batches)
		}
		all = append(all, told)
	}
	return all, nil
}

// lock keeps a second run out of a folder.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(filepath.Join(dir, ownedfolder.Marker))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another run writes into it: wait for its end, or name another folder"), f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written to it
}

// whenFull adds to the error of a full disk how much is written, and how much is to come.
func whenFull(err error, out string, done *Progress, batches int) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EFBIG) {
		return err
	}
	n, bytes := done.Batches.Load(), done.Bytes.Load()
	more := ""
	if n > 0 && bytes > 0 {
		more = fmt.Sprintf(", about %.1f MB are to come", float64(bytes)/float64(n)*float64(int64(batches)-n)/1e6)
	}
	return fmt.Errorf("%w: %d of %d mini-batches are in %s, %.1f MB by this run%s: make room and start the command again, it continues there",
		err, n, batches, out, float64(bytes)/1e6, more)
}

// writing writes the tars of one epoch.
type writing struct {
	o        Options
	epoch    int32
	files    []plans.File
	images   Source
	progress *Progress
	dir      string
	*ledger
	open *tarFile // of full mini-batches
}

const (
	partial     = ".partial" // ends the names of folders that are not complete
	shortSuffix = "-short"
)

func (e *writing) name() string { return fmt.Sprintf("epoch-%03d", e.epoch) }

func (e *writing) path(parts ...string) string {
	return filepath.Join(append([]string{e.dir}, parts...)...)
}

// run writes the epoch, unless it is complete.
func (e *writing) run(ctx context.Context) (told Epoch, err error) {
	full, short := e.path(e.name()), e.path(e.name()+shortSuffix)
	if _, err := os.Stat(full); err == nil {
		if e.ledger, err = openLedger(full, short, e.head(), os.O_RDONLY); err != nil {
			return told, err
		}
		defer func() { err = errors.Join(err, e.close()) }()
		if e.damage != nil {
			return told, fmt.Errorf("--materialize is %s, whose epoch %d was complete and is not any more: %w; remove %s and start again", e.o.Out, e.epoch, e.damage, full)
		}
		e.progress.Batches.Add(int64(len(e.done)))
		return e.outcome(), nil
	}
	if _, err := os.Stat(short); err == nil { // a run ended between the two names
		if err := os.Rename(short, short+partial); err != nil {
			return told, err
		}
	}
	for _, dir := range []string{full + partial, short + partial} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return told, err
		}
		if err := removeLeftovers(dir); err != nil {
			return told, err
		}
	}
	if e.ledger, err = continueLedger(full+partial, short+partial, e.head()); err != nil {
		return told, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	e.progress.Batches.Add(int64(len(e.done)))
	if err := e.write(ctx); err != nil {
		return told, err
	}
	told = e.outcome()
	if told.Short.Tars > 0 {
		err = os.Rename(short+partial, short)
	} else {
		err = os.Remove(short + partial)
	}
	if err == nil {
		err = os.Rename(full+partial, full)
	}
	return told, err
}

func (e *writing) outcome() Epoch {
	told := e.told
	told.Folder = e.name()
	return told
}

// head describes the epoch in its ledger.
func (e *writing) head() head {
	h := head{Version: 1, Epoch: e.epoch, BatchSize: e.o.BatchSize, PerTar: e.o.PerTar, Files: map[string]string{}}
	for _, f := range e.files {
		h.Files[f.Name] = f.SHA256
	}
	return h
}

// removeLeftovers removes tars that a killed run has begun.
func removeLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	for _, path := range left {
		if gone := os.Remove(path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// write reads the mini-batches that are not written, one ahead of the one that is being written.
func (e *writing) write(ctx context.Context) error {
	g, ctx := interrupt.WithContext(ctx)
	loaded := make(chan *batch)
	before := maps.Clone(e.done) // the writer adds what it writes
	g.Go(func() error {
		defer close(loaded)
		number := -1
		for planned, err := range plans.InOrder(ctx, e.o.Plan, e.files) {
			if err != nil {
				return err
			}
			if number++; before[number] {
				continue
			}
			b, err := e.load(ctx, number, planned)
			if err != nil {
				return err
			}
			select {
			case loaded <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	g.Go(func() (err error) {
		defer func() { err = errors.Join(err, e.abort()) }()
		for b := range loaded {
			if err := e.add(b); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.finish()
	})
	return g.Wait()
}
