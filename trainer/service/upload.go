package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/trainer"
)

// CHECKPOINT_UPLOAD gets a copy of every kept checkpoint, and of the best one. After each checkpoint one goroutine
// compares the folder with the place. It copies missing checkpoints, the newest first: a slow place gets fewer
// checkpoints, but not older ones. Then it removes from the place the checkpoints that would not stay in the folder
// either. Only the end of the training waits for it.

// The pauses between two tries of an upload that fails.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// lastWords bounds uploads after training was asked to end. The next start uploads the rest.
const lastWords = 20 * time.Second

// uploads copies checkpoints to a place. A nil one copies nothing.
type uploads struct {
	to     shard.Place
	place  string // for people
	dir    string
	stay   int64
	logger *slog.Logger
	pause  time.Duration // the first one after a failure
	news   chan struct{} // has a value when the folder has changed
	ending chan struct{} // closed at the end of the training
	done   chan struct{} // closed when nothing is uploaded any more
	sent   map[string]string
	step   prometheus.Gauge
	failed prometheus.Counter

	mu      sync.Mutex
	trouble string // error of the last try; empty: it succeeded
	since   time.Time
}

// newUploads opens the place of CHECKPOINT_UPLOAD; nil: there is none.
func newUploads(ctx context.Context, i *service.Instruments, s Settings) (*uploads, error) {
	if s.Upload == "" {
		return nil, nil
	}
	to, err := shard.OpenPlace(ctx, s.Upload, s.Bucket.Roots)
	if folder, ok := to.(shard.Folder); ok {
		err = os.MkdirAll(string(folder), 0o755)
	}
	if err != nil {
		return nil, uploadError(s.Upload, err)
	}
	const prefix = "pairstream_trainer_checkpoint_"
	u := &uploads{
		to: to, place: s.Upload, dir: s.Dir, stay: s.Stay, logger: i.Log, pause: firstPause,
		news: make(chan struct{}, 1), ending: make(chan struct{}), done: make(chan struct{}), sent: make(map[string]string),
		step:   prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "uploaded_step", Help: "Training steps in the newest checkpoint that CHECKPOINT_UPLOAD has from this trainer's folder."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "upload_failures_total", Help: "Tries to copy checkpoints to CHECKPOINT_UPLOAD that have failed."}),
	}
	i.Says(u.says)
	return u, i.Register(u.step, u.failed)
}

// validateUpload checks the form of CHECKPOINT_UPLOAD.
func validateUpload(place string) error {
	u, err := url.Parse(place)
	if err != nil || u.Scheme == "" || u.Scheme == "s3" || u.Scheme == "gs" {
		return nil // a path may hold anything
	}
	return fmt.Errorf("CHECKPOINT_UPLOAD is %q, want s3://bucket/prefix/, gs://bucket/prefix/ or a folder", place)
}

func uploadError(place string, err error) error {
	return fmt.Errorf("CHECKPOINT_UPLOAD is %q: %w", place, err)
}

// close closes the place.
func (u *uploads) close() error {
	if u == nil {
		return nil
	}
	return u.to.Close()
}

// look lets the uploads look at the folder again.
func (u *uploads) look() {
	if u == nil {
		return
	}
	select {
	case u.news <- struct{}{}:
	default: // a look is due already
	}
}

// says describes the trouble of uploads in answer to a readiness request.
func (u *uploads) says() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.trouble == "" {
		return ""
	}
	return fmt.Sprintf("checkpoints are not uploaded since %s, and tried again: %s", u.since.UTC().Format(time.RFC3339), u.trouble)
}

func (u *uploads) note(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		u.trouble = ""
	case u.trouble == "":
		u.since = time.Now()
		fallthrough
	default:
		u.trouble = err.Error()
	}
}

// run uploads until the training has ended and all is uploaded, or until ctx ends.
func (u *uploads) run(ctx context.Context) {
	defer close(u.done)
	pause := u.pause
	for {
		err := u.mirror(ctx)
		if ctx.Err() != nil {
			return
		}
		u.note(err)
		if err != nil {
			u.failed.Inc()
			u.logger.Warn("uploading checkpoints again after a pause", keyStage, Name, keyPlace, u.place, keyDur, pause, keyErr, err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			pause = min(2*pause, mostPause)
			continue
		}
		pause = u.pause
		select {
		case <-u.news:
			continue
		default:
		}
		select {
		case <-u.news:
		case <-u.ending:
			if len(u.news) == 0 {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// start uploads in the background. The returned function ends that. In good order it waits until everything is uploaded
// or ctx ends; otherwise it waits for lastWords at most.
func (u *uploads) start(ctx context.Context) (end func(inOrder bool)) {
	if u == nil {
		return func(bool) {}
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go u.run(running)
	return func(inOrder bool) {
		defer cancel()
		close(u.ending)
		if inOrder {
			select {
			case <-u.done:
				return
			case <-ctx.Done():
			}
		}
		select {
		case <-u.done:
		case <-time.After(lastWords):
			cancel()
			<-u.done
			u.logger.Warn("the last checkpoints are not uploaded; the next start does it", keyStage, Name, keyPlace, u.place, keyDir, u.dir)
		}
	}
}

// mirror copies missing checkpoints to the place, and removes superseded ones.
func (u *uploads) mirror(ctx context.Context) error {
	there, err := u.to.Sizes(ctx)
	if err != nil {
		return fmt.Errorf("listing the checkpoints: %w", err)
	}
	found, err := trainer.Checkpoints(u.dir)
	if err != nil || len(found) == 0 {
		return err
	}
	newest := found[0].Step
	for i, c := range found {
		if err := u.copy(ctx, filepath.Base(c.Path), there); err != nil {
			return err
		}
		if i == 0 {
			u.step.Set(float64(newest))
			if err := u.copy(ctx, bestFile, there); err != nil {
				return err
			}
		}
	}
	return u.prune(ctx, there, newest)
}

// copy copies a file of the folder, unless the place has it, and records that it is there. A file that has disappeared
// meanwhile was superseded.
func (u *uploads) copy(ctx context.Context, name string, there map[string]int64) error {
	file, err := os.Open(filepath.Join(u.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	head, err := trainer.ReadHead(file)
	if errors.Is(err, trainer.ErrTorn) {
		return nil // the start of a trainer says so
	}
	if err != nil || u.sent[name] == head.Digest {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if size, ok := there[name]; ok && u.sent[name] == "" && size == info.Size() {
		same, err := u.has(ctx, name, head)
		if err != nil {
			return err
		}
		if same {
			u.sent[name] = head.Digest
			return nil
		}
	}
	started := time.Now()
	if err := u.to.Put(ctx, name, file); err != nil {
		return fmt.Errorf("uploading %s: %w", name, err)
	}
	u.sent[name] = head.Digest
	there[name] = info.Size()
	u.logger.Info("checkpoint uploaded", keyStage, Name, keyStep, head.Step, keyPath, name, keyPlace, u.place, keyDur, time.Since(started))
	return nil
}

// has reports whether the place's file, of the same length, is this checkpoint. It reads only the beginning.
func (u *uploads) has(ctx context.Context, name string, want trainer.Head) (bool, error) {
	head, err := u.head(ctx, name)
	if errors.Is(err, trainer.ErrTorn) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return head.Digest == want.Digest, err
}

func (u *uploads) head(ctx context.Context, name string) (trainer.Head, error) {
	r, err := u.to.Open(ctx, name)
	if err != nil {
		return trainer.Head{}, fmt.Errorf("reading %s: %w", name, err)
	}
	defer r.Close()
	return trainer.ReadHead(r)
}

// prune removes files of interrupted uploads, and the checkpoints that would not stay in a folder. It leaves
// checkpoints of steps after the newest alone: they belong to another training.
func (u *uploads) prune(ctx context.Context, there map[string]int64, newest int64) error {
	steps := []int64{newest}
	for name := range there {
		if trainer.IsTemporary(name) { // of a process that was killed: one of ours has ended
			if err := u.to.Delete(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing %s: %w", name, err)
			}
		}
		if step, ok := trainer.CheckpointStep(name); ok && step < newest {
			steps = append(steps, step)
		}
	}
	for _, step := range trainer.Superseded(steps, u.stay) {
		name := trainer.CheckpointName(step)
		if err := u.to.Delete(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}
