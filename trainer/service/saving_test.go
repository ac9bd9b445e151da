package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A checkpoint is written beside the steps. The next one waits until it is on the disk, and its positions are those of
// its own step.
func TestCheckpointsAreWrittenBesideTraining(t *testing.T) {
	l, n, _ := testLoop(t, false, never)
	core := l.core.(*scripted)
	begun, finish := make(chan int64), make(chan struct{})
	var written []string
	core.writing = func(step int64) {
		begun <- step
		<-finish
	}
	group, ctx := interrupt.WithContext(t.Context())
	l.saving.beside(group)
	l.every = 2
	steps := func(from, to int64) error {
		for seq := from; seq < to; seq++ {
			w := testWork(0, seq)
			w.after = positions{Decay: seq + 1}
			if err := l.step(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
	if err := steps(0, 3); err != nil { // goes on behind the checkpoint of step 2, which is not written yet
		t.Fatal(err)
	}
	if step := <-begun; step != 2 {
		t.Fatalf("the checkpoint of step %d is written, want 2", step)
	}
	if slices.Contains(n.calls, "save 2") || !slices.Contains(n.calls, "features 2 of lane 0") {
		t.Errorf("while it is written: %q", n.calls)
	}
	next := make(chan error)
	go func() { next <- steps(3, 4) }()
	select {
	case step := <-begun:
		t.Fatalf("the checkpoint of step %d is written beside that of step 2", step)
	case err := <-next:
		t.Fatalf("the next checkpoint does not wait: %v", err)
	default:
	}
	finish <- struct{}{}
	if step := <-begun; step != 4 {
		t.Errorf("then the checkpoint of step %d is written, want 4", step)
	}
	written = append(written, string(core.saved))
	finish <- struct{}{}
	must.Do(t, errors.Join(<-next, group.Wait()))
	for i, raw := range append(written, string(core.saved)) {
		var at positions
		if err := json.Unmarshal([]byte(raw), &at); err != nil || at.Decay != int64(2*i+2) {
			t.Errorf("checkpoint %d goes on behind batch %d (%v), want %d", i, at.Decay, err, 2*i+2)
		}
	}
	saves := slices.DeleteFunc(slices.Clone(n.calls), func(c string) bool { return !strings.HasPrefix(c, "save") && !strings.HasSuffix(c, "checkpoint") })
	if want := []string{"save 2", "progress checkpoint", "save 4", "progress checkpoint"}; !slices.Equal(saves, want) {
		t.Errorf("%q, want %q", saves, want)
	}
}

// What is asked to end while it waits for the disk does so. The checkpoint that was begun is written and told of.
func TestTrainingEndsWhileACheckpointIsWritten(t *testing.T) {
	l, n, _ := testLoop(t, false, never)
	core := l.core.(*scripted)
	begun, finish := make(chan int64), make(chan struct{})
	core.writing = func(step int64) {
		begun <- step
		<-finish
	}
	parent, stop := context.WithCancel(t.Context())
	group, ctx := interrupt.WithContext(parent)
	l.saving.beside(group)
	l.every = 1
	must.Do(t, l.step(ctx, testWork(0, 0)))
	<-begun
	second := make(chan error)
	go func() { second <- l.step(ctx, testWork(0, 1)) }()
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the next step ends with %v", err)
	}
	close(finish)
	if err := group.Wait(); err != nil {
		t.Errorf("the checkpoint that was begun: %v", err)
	}
	if last := n.calls[len(n.calls)-1]; last != "progress checkpoint" {
		t.Errorf("the last call is %q", last)
	}
}
