package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/decision"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// ownedLog opens a log whose owners are given up after a short silence.
func ownedLog(t *testing.T) *stream.Log {
	return logtest.Open(t, logtest.Broker(t), "exp", testLanes, func(c *stream.Config) { c.SessionTimeout = time.Second })
}

// alive runs an owner until the test is over, or stop is called.
func alive(t *testing.T, log *stream.Log, dir string) (o *owner, stop func()) {
	t.Helper()
	began, leave, ended := make(chan *owner), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- owning(t.Context(), log, dir, slog.New(slog.DiscardHandler), func(o *owner) error {
			began <- o
			<-leave
			return nil
		})
	}()
	select {
	case o = <-began:
	case err := <-ended:
		t.Fatal(err)
	}
	return o, func() {
		close(leave)
		must.Check(t, <-ended)
	}
}

// TestNamespaceHasOneTrainer has several trainers with folders of their own in one namespace. The second is refused
// while the first is alive, and begins at once when that has ended. Another namespace has another trainer.
func TestNamespaceHasOneTrainer(t *testing.T) {
	log, first, second := ownedLog(t), t.TempDir(), t.TempDir()
	o, stop := alive(t, log, first)
	for range 2 {
		_, err := own(t.Context(), log, second)
		if !errors.Is(err, errOwned) || !strings.Contains(err.Error(), `NAMESPACE is "exp": it trains on `) || !strings.Contains(err.Error(), "CHECKPOINT_DIR="+first) {
			t.Fatalf("a second trainer: %v", err)
		}
	}
	must.Do(t, o.sure(t.Context()))
	other := must.Get(log.In(t.Context(), "other"))(t)
	defer other.Close()
	must.Do(t, other.EnsureTopics(t.Context()))
	must.Get(own(t.Context(), other, second))(t)
	stop()
	began := time.Now()
	for _, dir := range []string{second, second, first} { // ended, or in the folder that the last one had
		o, stop := alive(t, log, dir)
		must.Check(t, o.sure(t.Context()))
		stop()
	}
	if o := must.Get(own(t.Context(), log, second))(t); o.self.Number != 5 || len(o.asked) != 0 {
		t.Errorf("owner number %d, %d trainers ask, want 5 and none: took %v", o.self.Number, len(o.asked), time.Since(began))
	}
	must.Get(own(t.Context(), log, second))(t) // after a kill, in the same folder
}

// TestTrainerThatComesBack has a trainer that is cut off. Another one, in a folder of its own, waits until the first
// has been silent for long enough. The first then publishes nothing.
func TestTrainerThatComesBack(t *testing.T) {
	log := ownedLog(t)
	cutOff := must.Get(own(t.Context(), log, t.TempDir()))(t) // it does not look at the notes
	began := time.Now()
	next, stop := alive(t, log, t.TempDir())
	defer stop()
	if waited := time.Since(began); waited < time.Second || next.self.Number != 2 {
		t.Errorf("number %d after %v, want 2 after a second of silence", next.self.Number, waited)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := cutOff.sure(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a trainer that has not looked for a second goes on: %v", err)
	}
	looking, end := context.WithCancel(t.Context())
	defer end()
	go cutOff.run(looking)
	for name, err := range map[string]error{"sure": cutOff.sure(t.Context()), "watch": cutOff.watch(t.Context())} {
		if !errors.Is(err, errOwned) || !strings.Contains(err.Error(), "it has taken over, on ") {
			t.Errorf("%s of the trainer that comes back: %v", name, err)
		}
	}
	must.Do(t, cutOff.release(t.Context()))
	if _, err := own(t.Context(), log, t.TempDir()); !errors.Is(err, errOwned) {
		t.Errorf("a third trainer, after the first has ended: %v", err)
	}
}

// TestTrainersThatBeginAtOnce: one of them trains, since the first note of a number counts.
func TestTrainersThatBeginAtOnce(t *testing.T) {
	log := ownedLog(t)
	began, leave, ended := make(chan *owner, 4), make(chan struct{}), make(chan error)
	for range cap(began) {
		dir := t.TempDir()
		go func() {
			ended <- owning(t.Context(), log, dir, slog.New(slog.DiscardHandler), func(o *owner) error {
				began <- o
				<-leave
				return nil
			})
		}()
	}
	for range cap(began) - 1 {
		if err := <-ended; !errors.Is(err, errOwned) {
			t.Errorf("a trainer beside another: %v", err)
		}
	}
	o := <-began
	close(leave)
	must.Do(t, <-ended)

	n := ownerNote{ID: "late", Number: o.self.Number, Folder: "x"}
	must.Do(t, decision.Write(t.Context(), log, ownerClaim, n))
	must.Do(t, o.read(t.Context()))
	if o.last.ID != o.self.ID {
		t.Errorf("a later note of the same number counts: %+v", o.last)
	}
}

// TestRunRefusesASecondTrainer runs the whole trainer beside an owner. It publishes nothing.
func TestRunRefusesASecondTrainer(t *testing.T) {
	log := ownedLog(t)
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{"CHECKPOINT_DIR": t.TempDir(), "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir()}
	_, stop := alive(t, log, t.TempDir())
	if err := runTrainer(t, log, environ); !errors.Is(err, errOwned) {
		t.Errorf("beside another trainer: %v", err)
	}
	if last := lastOf(t, log); last[0] != -1 || last[1] != -1 || last[2] != -1 {
		t.Errorf("the refused trainer has published features %v", last)
	}
	stop()
	must.Do(t, runTrainer(t, log, environ))
}

// TestTrainerEndsWhereAnotherTakesOver lets another trainer claim the namespace within the first step. The first
// publishes nothing more than that step's features, and leaves no checkpoint.
func TestTrainerEndsWhereAnotherTakesOver(t *testing.T) {
	log, dir := ownedLog(t), t.TempDir()
	putScored(t, log, 0, 1, 2)
	s := must.Get(parse(map[string]string{
		"CHECKPOINT_DIR": dir, "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(), "STEP_BATCHES": "1", "TRAIN_EXIT_AT_END": "true",
	}))(t)
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	shared := device.NewShared(device.Settings{Name: "cpu", Threads: 1}, nil)
	defer func() { must.Check(t, shared.Close()) }()
	ctx, tools := shared.For(t.Context(), log, instruments, new(torch.Meter))
	steps := 0
	err := RunObserved(ctx, tools, s, func(Step) {
		if steps++; steps == 1 {
			must.Check(t, decision.Write(t.Context(), log, ownerClaim, ownerNote{ID: "other", Number: 2, Folder: "x", Host: "h", Dir: "/d"}))
			time.Sleep(log.Config().SessionTimeout) // the notes are read meanwhile
		}
	})
	if !errors.Is(err, errOwned) || !strings.Contains(err.Error(), "it has taken over, on h with CHECKPOINT_DIR=/d") {
		t.Errorf("error %v", err)
	}
	blocks := int64(0)
	for _, last := range lastOf(t, log) {
		blocks += last + 1
	}
	if files := must.Get(os.ReadDir(dir))(t); blocks != 1 || len(files) != 0 {
		t.Errorf("%d features and %d files, want those of one step and none", blocks, len(files))
	}
}
