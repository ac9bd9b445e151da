package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/schemas"
)

// syncBytes is what the limit of plumbing writes between two syncs: a full request of a stage.
const syncBytes = 640 << 10

// logLimit is the time of writing, syncing and reading the bytes of the log, of every topic in a file for each lane.
func logLimit(ctx context.Context, b *bench, r *Result) error {
	bytes := r.Extra["log_bytes"]
	if bytes == 0 {
		return errors.New("the row was measured before its log was: measure the row first")
	}
	answers, err := b.alone(ctx, "log", job{Folder: b.folder, Options: map[string]float64{"bytes": bytes}}, 1)
	if err != nil {
		return err
	}
	r.limited(float64(b.size(plumbingPairs, plumbingPairsShort))/figure(answers, seconds).Value,
		fmt.Sprintf("writing, syncing and reading the %.1f GB of the log alone", bytes/1e9))
	return nil
}

// logWorker writes files as a broker writes a log, and reads them.
type logWorker struct{ job job }

func newLogWorker(_ context.Context, j job) (worker, error) {
	return worker{"run": logWorker{j}.run, "check": unchecked}, nil
}

func (w logWorker) run(_ context.Context, a *answer) (err error) {
	folder, err := os.MkdirTemp(w.job.Folder, "log-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	part := make([]byte, syncBytes)
	started := time.Now()
	var files errgroup.Group
	for topic := range chain {
		for lane := range plumbingLanes {
			// Nobody reads the last topic.
			files.Go(func() error {
				return writeAndRead(filepath.Join(folder, fmt.Sprint(topic, "-", lane)), part, w.job.option("bytes")/(len(chain)*plumbingLanes), topic < len(chain)-1)
			})
		}
	}
	err = files.Wait()
	a.Seconds = time.Since(started).Seconds()
	return err
}

// writeAndRead appends parts to a file, syncs each, and reads it from the beginning.
func writeAndRead(path string, part []byte, size int, reads bool) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	room := make([]byte, len(part))
	for at := 0; at < size; at += len(part) {
		n := min(len(part), size-at)
		if _, err := f.Write(part[:n]); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if reads {
			if _, err := f.ReadAt(room[:n], int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// hashLimit is the time of reading the tars, and of the hashes that name their images and pairs.
func hashLimit(ctx context.Context, b *bench, r *Result) error {
	tars := b.size(produceTars, produceTarsShort)
	j := job{Folder: filepath.Join(b.folder, "hashes"), Options: map[string]float64{"tars": float64(tars)}}
	answers, err := b.alone(ctx, "hashes", j, 1)
	if err != nil {
		return err
	}
	r.limited(float64(tars*producePerTar)/figure(answers, seconds).Value, "reading the tars, and the SHA-256 of every image and pair, alone")
	return nil
}

// newHashesWorker reads tars and hashes images with all threads.
func newHashesWorker(_ context.Context, j job) (worker, error) {
	tars, err := writeTars(j.path("tars"), j.option("tars"))
	return worker{"check": unchecked, "run": func(context.Context, *answer) error {
		var threads errgroup.Group
		threads.SetLimit(j.Threads)
		for _, tar := range tars {
			threads.Go(func() error { return hashTar(tar) })
		}
		return threads.Wait()
	}}, err
}

// hashTar hashes as many images as a tar has, and their pairs.
func hashTar(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i := range producePerTar {
		at := i * (len(raw) - produceImage) / producePerTar
		schemas.NewPairID(schemas.NewImageID(raw[at:at+produceImage]), "a photograph of number 0 in tar 0")
	}
	return nil
}
