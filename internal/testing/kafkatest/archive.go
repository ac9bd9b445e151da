package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// share gives the installation an archive of the classes that a server loads, beside the jars. With it a server starts
// with less than two thirds of the processor time. Java ignores an archive of other jars or of another Java.
func (i installation) share(ctx context.Context) (installation, error) {
	archive := i.jars + ".jsa"
	unlock, err := lockFile(archive + ".lock")
	if err != nil {
		return i, err
	}
	if _, err = os.Stat(archive); errors.Is(err, os.ErrNotExist) {
		err = i.dump(ctx, archive)
	}
	i.classes = "-XX:SharedArchiveFile=" + archive
	return i, errors.Join(err, unlock())
}

// dump starts a broker of its own and ends it. Java then writes the classes that it has loaded.
func (i installation) dump(ctx context.Context, archive string) error {
	c, err := newCluster(ctx, Options{Brokers: 1}.withDefaults(), i)
	if err != nil {
		return err
	}
	partial := archive + ".partial"
	c.install.classes = "-XX:ArchiveClassesAtExit=" + partial
	if err = c.startAll(ctx); err == nil {
		b := c.brokers[0]
		err = b.process.signal(syscall.SIGTERM)
		select {
		case <-b.process.done:
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
		if err == nil {
			err = os.Rename(partial, archive)
		}
		if err != nil {
			err = fmt.Errorf("archiving Kafka's classes: %w; the broker's log ends with\n%s", err, b.logTail(30))
		}
	}
	return errors.Join(err, c.Close(), os.RemoveAll(c.dir))
}

// lockFile takes the lock of a path, and returns what gives it back.
func lockFile(path string) (unlock func() error, err error) {
	lock, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("making a lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lock %s: %w", path, err), lock.Close())
	}
	return lock.Close, nil // which unlocks
}
