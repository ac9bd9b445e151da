//go:build cgo

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// releaseBefore names the program `pairstream` of the release before. Where it is set, stages begin with that release,
// and operators upgrade them one by one and roll them back.
const releaseBefore = "PAIRSTREAM_BEFORE"

// upgrades are the actions that need the release before.
var upgrades = []string{"upgrade", "upgrade", "upgrade", "upgrade all", "roll back"}

// kindsOfActions returns what operators do. An action that needs the release before is drawn only where that is at
// hand.
func kindsOfActions() []string {
	if os.Getenv(releaseBefore) == "" {
		return actionKinds
	}
	return slices.Concat(actionKinds, upgrades)
}

// beforeThis returns the program of the release before, or nothing.
func beforeThis(t *testing.T) string {
	t.Helper()
	program := os.Getenv(releaseBefore)
	if program == "" {
		return ""
	}
	out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%s is %q, want the program pairstream of the release before: %v\n%s", releaseBefore, program, err, out)
	}
	t.Logf("the release before is %s", bytes.TrimSpace(out))
	return program
}

// beginWithOld lets the release before publish, group, score and train, so that every later version finds its records.
func (w *world) beginWithOld() {
	if w.site.before == "" {
		return
	}
	for n := range siteTars {
		w.produce(filepath.Join(w.bucket(), fmt.Sprintf("%d.tar", n)), true)
	}
	for began := time.Now(); w.features() == 0; time.Sleep(patience / 10) {
		if time.Since(began) > silence {
			w.fatalf("the release before does not train")
		}
	}
}

// features returns the number of records that the trainer has published.
func (w *world) features() (n int64) {
	w.read(w.here)
	for lane := range worldLanes {
		n += w.here.next[laneOf{schemas.Features, lane}]
	}
	return n
}

// upgrade goes on with this version of the stages, one after the other.
func (w *world) upgrade(stages ...string) { w.turn(false, stages) }

// rollBack goes on with the release before.
func (w *world) rollBack(stage string) { w.turn(true, []string{stage}) }

// turn restarts the stages that have the other version. One that was stopped has it from its next start on.
func (w *world) turn(old bool, stages []string) {
	for _, stage := range stages {
		if w.old[stage] == old {
			continue
		}
		w.old[stage] = old
		if len(w.members[stage]) > 0 {
			w.stop(stage, false)
			w.start(stage)
		}
	}
}

// runProgram is a stage of the release before, a process of its own. The end of ctx ends it, in order or by kill -9.
func (m *member) runProgram(ctx context.Context, environ map[string]string) error {
	cmd := exec.CommandContext(ctx, m.program)
	// The variables of this process are left out: they are settings of other sequences.
	cmd.Args, cmd.Env = []string{m.stage}, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for name, value := range environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error {
		if m.killed.Load() {
			return cmd.Process.Kill()
		}
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = time.Minute
	runtime.LockOSThread() // Linux sends Pdeathsig when the starting thread ends
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, m.log.lastLine())
	}
	return err
}
