//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestInterruptedRunTellsOfItsLastCheckpoint interrupts `up` when it has trained and its folder of checkpoints is gone.
// The last checkpoint is lost, so the command fails and says why. With the folder in place the same end is no failure.
func TestInterruptedRunTellsOfItsLastCheckpoint(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	t.Setenv("TRAIN_EXIT_AT_END", "false")
	t.Setenv("CONSOLE_ADDR", "off")
	for _, gone := range []bool{false, true} {
		namespace := fmt.Sprint("gone-", gone)
		t.Setenv("NAMESPACE", namespace)
		t.Setenv("CHECKPOINT_DIR", in(namespace))
		mustCommand(t, "produce", in("scenes")) // no seal: the last groups stay open
		log := must.Get(rundir.Connect(t.Context()))(t)
		defer log.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		root := newRoot()
		root.SetArgs([]string{"up"})
		ended := make(chan error, 1)
		go func() { ended <- interrupt.Unfinished(root.ExecuteContext(ctx)) }()
		for trained := false; !trained; {
			select {
			case err := <-ended:
				t.Fatalf("up ended by itself: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			seq := must.Get(log.LastSeq(t.Context(), schemas.Features, 0))(t)
			trained = seq >= 0
		}
		if gone {
			must.Do(t, os.RemoveAll(in(namespace)))
			must.Do(t, os.WriteFile(in(namespace), nil, 0o600)) // where the trainer would make the folder anew
		}
		cancel()
		err := <-ended
		if !gone && err != nil || gone && (!errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), in(namespace))) {
			t.Errorf("folder gone: %t, error %v", gone, err)
		}
	}
}
