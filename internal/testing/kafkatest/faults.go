package kafkatest

import (
	"context"
	"errors"
	"fmt"
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

// Stop ends broker i in good order: leadership moves away first. A broker that cannot stop so, because no other can lead,
// is killed after a minute.
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
