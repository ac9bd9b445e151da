package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

var errDown = errors.New("is not running")

// with calls do with the lock held. Broker i must be running, or not running, as the caller says.
func (c *Cluster) with(i int, running bool, do func(b *broker) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case i < 0 || i >= len(c.brokers):
		return fmt.Errorf("broker %d does not exist", i)
	case c.closed:
		return errors.New("the cluster is closed")
	case running && c.brokers[i].process == nil:
		return fmt.Errorf("broker %d %w", i, errDown)
	case !running && c.brokers[i].process != nil:
		return fmt.Errorf("broker %d is running already", i)
	}
	return do(c.brokers[i])
}

// Kill ends broker i with SIGKILL: it flushes nothing and tells nobody.
func (c *Cluster) Kill(i int) error { return c.terminate(i, syscall.SIGKILL) }

// Stop ends broker i in good order: leadership moves away first. A broker that cannot stop so, because no other can
// lead, is killed after a minute.
func (c *Cluster) Stop(i int) error { return c.terminate(i, syscall.SIGTERM) }

func (c *Cluster) terminate(i int, signal syscall.Signal) error {
	var p *process
	err := c.with(i, true, func(b *broker) error {
		p = b.process
		b.process, b.ending, b.paused = nil, p, false
		return p.signal(signal)
	})
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Pause halts broker i with SIGSTOP: its connections stay open and nothing answers.
func (c *Cluster) Pause(i int) error {
	return c.with(i, true, func(b *broker) error {
		b.paused = true
		return b.process.signal(syscall.SIGSTOP)
	})
}

// Resume lets a paused broker go on.
func (c *Cluster) Resume(i int) error {
	return c.with(i, true, func(b *broker) error {
		b.paused = false
		return b.process.signal(syscall.SIGCONT)
	})
}

// Restart starts broker i again after Kill or Stop, on the same data and ports, and waits until it serves.
func (c *Cluster) Restart(i int) error {
	if err := c.with(i, false, c.launch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return c.waitReady(ctx)
}

// launcher starts processes from one OS thread that lives until close. Linux sends a child its parent-death signal when
// the *thread* that started it ends, and Go ends threads when it likes. So the launcher keeps the thread. The kernel
// then kills the brokers exactly when close is called or the test process dies, however it dies.
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
