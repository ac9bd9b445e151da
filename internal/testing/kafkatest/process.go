package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// launcher starts processes from one OS thread that lives until close. Linux sends a child its parent-death signal when
// the *thread* that started it ends, and Go ends threads when it likes. So the launcher keeps the thread. The kernel then
// kills the brokers exactly when close is called or the test process dies, however it dies.
type launcher struct {
	jobs chan func()
	done chan struct{}
}

func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

// close ends the thread. It must not be called while start runs, nor twice.
func (l *launcher) close() {
	close(l.jobs)
	<-l.done
}

// process is a running program with its output in a file.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; may be read after done
}

// start starts a program and appends its output to logPath.
func (l *launcher) start(logPath, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", program, err)
	}
	p := &process{cmd: exec.CommandContext(context.Background(), program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	l.jobs <- func() { started <- p.cmd.Start() }
	err = <-started
	if err = errors.Join(err, log.Close()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to process %d: %w", s, p.cmd.Process.Pid, err)
	}
	return nil
}
