package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pairstream/pairstream/internal/log/decision"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// A namespace has one trainer at a time, its owner, like a lane of a stage. The notes of its owners are in `control`:
//
//   1. A starting trainer claims the number after the last owner's. The first note of a number counts. A trainer that
//      sees a number above its own ends, and publishes nothing more.
//   2. If the last owner has not noted its end, the newcomer asks. A live owner answers within SessionTimeout, and the
//      newcomer is refused. A newcomer does not ask an owner of its own folder, because it holds that folder's lock.
//   3. An owner that has not read the notes for half of SessionTimeout reads them before it publishes anything. So an
//      owner that was suspended or cut off notices its successor first.

// Notes of owners, by the beginnings of their keys.
const (
	ownerClaim   = "trainer/claim/"
	ownerEnded   = "trainer/ended/"
	ownerAsked   = "trainer/asked/"
	ownerIsAlive = "trainer/alive/"
)

// ownerNote is a note of any of these kinds.
type ownerNote struct {
	ID     string    `json:"id"`               // the trainer that claims, has ended, asks or is asked about
	Number int64     `json:"number,omitempty"` // claimed number
	Folder string    `json:"folder,omitempty"` // identifies the folder of checkpoints, as its lock does
	Dir    string    `json:"dir,omitempty"`
	Host   string    `json:"host,omitempty"`
	Time   time.Time `json:"time"`
}

func (n ownerNote) String() string {
	return fmt.Sprintf("on %s with CHECKPOINT_DIR=%s, since %s", n.Host, n.Dir, n.Time.Format(time.RFC3339))
}

// errOwned is wrapped by the errors of a trainer whose namespace another one owns.
var errOwned = errors.New("another trainer owns this NAMESPACE: stop one of the two, or give this one a NAMESPACE of its own")

// owner is a trainer that owns its namespace. A nil owner owns it without asking.
type owner struct {
	log  *stream.Log
	self ownerNote
	lost chan struct{} // closed when another trainer owns the namespace

	mu        sync.Mutex
	at        stream.Position     // of the next note
	last      ownerNote           // with the highest number
	ended     map[string]bool     // trainers
	alive     map[string]bool     // newcomers that were answered
	asked     map[string]struct{} // newcomers that wait for this owner's answer
	confirmed time.Time           // when the notes were read
	seen      *sync.Cond          // of mu: the notes were read
	failed    error               // why this trainer is no owner
}

// own makes this trainer the owner of the log's namespace. The caller holds the lock of the folder, and calls release.
func own(ctx context.Context, log *stream.Log, dir string) (*owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for this host's name: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	folder, err := folderID(dir, host)
	if err != nil {
		return nil, fmt.Errorf("CHECKPOINT_DIR is %q: %w", dir, err)
	}
	o := &owner{
		log: log, self: ownerNote{ID: rand.Text(), Folder: folder, Dir: dir, Host: host, Time: time.Now().UTC()}, lost: make(chan struct{}),
		ended: make(map[string]bool), alive: make(map[string]bool), asked: make(map[string]struct{}),
	}
	o.seen = sync.NewCond(&o.mu)
	if err := o.claim(ctx); err != nil {
		return nil, fmt.Errorf("NAMESPACE is %q: %w", log.Config().Namespace, err)
	}
	return o, nil
}

// owning runs do while this trainer owns the namespace of its log.
func owning(ctx context.Context, log *stream.Log, dir string, logger *slog.Logger, do func(*owner) error) error {
	o, err := own(ctx, log, dir)
	if err != nil {
		return err
	}
	lasting := context.WithoutCancel(ctx) // a stopping trainer stays the owner until it has ended
	looking, end := context.WithCancel(lasting)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(looking)
	}()
	err = do(o)
	end()
	<-ended
	noting, cancel := context.WithTimeout(lasting, o.log.Config().PerRequest())
	defer cancel()
	if err := o.release(noting); err != nil {
		logger.Warn("the next trainer with another CHECKPOINT_DIR waits for STREAM_SESSION_TIMEOUT before it begins", keyStage, Name, keyErr, err)
	}
	return err
}

// bootID is the file in which Linux names its start.
const bootID = "/proc/sys/kernel/random/boot_id"

// folderID identifies a folder as its lock does: by its inode on a disk of a running machine.
func folderID(dir, host string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	machine, err := os.ReadFile(bootID)
	if err != nil {
		machine = []byte(host) // no Linux
	}
	if place, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%s %d:%d", bytes.TrimSpace(machine), place.Dev, place.Ino), nil
	}
	return rand.Text(), nil
}

func (o *owner) claim(ctx context.Context) error {
	if err := o.read(ctx); err != nil {
		return err
	}
	before := o.last
	if before.Number > 0 && !o.ended[before.ID] && before.Folder != o.self.Folder {
		if err := o.ask(ctx, before); err != nil {
			return err
		}
	}
	o.self.Number = before.Number + 1
	if err := decision.Write(ctx, o.log, ownerClaim, o.self); err != nil {
		return fmt.Errorf("noting who trains: %w", err)
	}
	clear(o.asked) // waiting newcomers see the claim
	if err := o.read(ctx); err != nil {
		return err
	}
	if o.last.ID != o.self.ID {
		return fmt.Errorf("it began at the same time, %s: %w", o.last, errOwned)
	}
	return nil
}

// ask waits until the last owner has answered or ended, or has been silent for so long that it is dead.
func (o *owner) ask(ctx context.Context, before ownerNote) error {
	if err := decision.Write(ctx, o.log, ownerAsked, o.self); err != nil {
		return fmt.Errorf("asking who trains: %w", err)
	}
	patience := time.NewTimer(o.log.Config().SessionTimeout)
	defer patience.Stop()
	tick := time.NewTicker(o.every())
	defer tick.Stop()
	for silent := false; ; {
		if err := o.read(ctx); err != nil {
			return err
		}
		switch {
		case o.alive[o.self.ID], o.last.ID != before.ID:
			return fmt.Errorf("it trains %s: %w", o.last, errOwned)
		case o.ended[before.ID], silent:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			silent = true // and its last word is read
		case <-tick.C:
		}
	}
}

// every is the time between two looks at the notes.
func (o *owner) every() time.Duration { return min(time.Second, o.log.Config().SessionTimeout/10) }

// read reads the notes that have come.
func (o *owner) read(ctx context.Context) error {
	began := time.Now()
	for rec, err := range o.log.Records(ctx, schemas.Control, 0, o.at, -1) {
		if err != nil {
			return fmt.Errorf("reading who trains: %w", err)
		}
		if err := o.take(rec); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.confirmed = began
	o.seen.Broadcast()
	return nil
}

// take processes a note.
func (o *owner) take(rec stream.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = rec.Next()
	rest, ours := strings.CutPrefix(string(rec.Key), "trainer/")
	if !ours {
		return nil
	}
	kind, _, _ := strings.Cut(rest, "/")
	var n ownerNote
	if err := json.Unmarshal(rec.Value, &n); err != nil {
		return fmt.Errorf("reading who trains: note %s: %w", rec.Key, err)
	}
	switch "trainer/" + kind + "/" {
	case ownerClaim:
		if n.Number > o.last.Number {
			o.last = n
		}
	case ownerEnded:
		o.ended[n.ID] = true
	case ownerIsAlive:
		o.alive[n.ID] = true
		delete(o.asked, n.ID)
	case ownerAsked:
		o.asked[n.ID] = struct{}{}
	}
	return nil
}

// run reads the notes until ctx ends, answers newcomers, and notices when another trainer owns the namespace.
func (o *owner) run(ctx context.Context) {
	tick := time.NewTicker(o.every())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := o.read(ctx)
		if err == nil {
			err = o.answer(ctx)
		}
		if ctx.Err() == nil && err != nil {
			o.fail(err)
			return
		}
	}
}

// answer tells newcomers that this owner is alive, as long as it is the owner.
func (o *owner) answer(ctx context.Context) error {
	if o.last.ID != o.self.ID {
		return fmt.Errorf("it has taken over, %s: %w", o.last, errOwned)
	}
	for id := range o.asked {
		if err := decision.Write(ctx, o.log, ownerIsAlive, ownerNote{ID: id, Time: time.Now().UTC()}); err != nil {
			return fmt.Errorf("answering another trainer: %w", err)
		}
		delete(o.asked, id)
	}
	return nil
}

func (o *owner) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = fmt.Errorf("NAMESPACE is %q: %w", o.log.Config().Namespace, err)
	close(o.lost)
	o.seen.Broadcast()
}

// watch returns when another trainer owns the namespace, or ctx ends.
func (o *owner) watch(ctx context.Context) error {
	if o == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-o.lost:
		return o.sure(ctx)
	}
}

// sure returns once this trainer is known to have been the owner just now, or an error if it no longer is.
func (o *owner) sure(ctx context.Context) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen.Broadcast()
	})
	defer stop()
	for o.failed == nil && ctx.Err() == nil && time.Since(o.confirmed) > o.log.Config().SessionTimeout/2 {
		o.seen.Wait()
	}
	if o.failed != nil {
		return o.failed
	}
	return ctx.Err()
}

// release notes that this trainer has ended, so that the next one need not ask.
func (o *owner) release(ctx context.Context) error {
	o.mu.Lock()
	failed := o.failed
	o.mu.Unlock()
	if failed != nil {
		return nil
	}
	if err := decision.Write(ctx, o.log, ownerEnded, o.self); err != nil {
		return fmt.Errorf("noting that this trainer has ended: %w", err)
	}
	return nil
}
