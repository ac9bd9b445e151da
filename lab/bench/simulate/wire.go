package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wire joins two network devices of two namespaces, and delivers every frame after a delay. It stands in for netem,
// which not every kernel has. Its queues are long enough to lose nothing.
type wire struct {
	ends    [2]io.ReadWriteCloser
	closing chan struct{}
	running sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// wireQueue is the number of frames on their way in one direction.
const wireQueue = 1 << 14

// newWire makes a device in each of two namespaces, and joins them.
func newWire(spaces, devices [2]string, delay time.Duration) (*wire, error) {
	w := &wire{closing: make(chan struct{})}
	for i := range w.ends {
		end, err := newTap(spaces[i], devices[i])
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.ends[i] = end
	}
	w.running.Go(func() { w.carry(w.ends[0], w.ends[1], delay) })
	w.running.Go(func() { w.carry(w.ends[1], w.ends[0], delay) })
	return w, nil
}

// newTap makes an Ethernet device in a namespace, whose frames this process reads and writes.
func newTap(space, device string) (*os.File, error) {
	type made struct {
		file *os.File
		err  error
	}
	out := make(chan made)
	go func() { // its thread ends with it, as it is in another namespace
		runtime.LockOSThread()
		file, err := tapIn(space, device)
		if err != nil {
			err = fmt.Errorf("making the device %s in the namespace %s: %w", device, space, err)
		}
		out <- made{file, err}
	}()
	m := <-out
	return m.file, m.err
}

func tapIn(space, device string) (*os.File, error) {
	handle, err := os.Open("/run/netns/" + space)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	if err := unix.Setns(int(handle.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	asked, err := unix.NewIfreq(device)
	if err == nil {
		asked.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, asked)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), device), nil
}

// carry delivers the frames of one end to the other.
func (w *wire) carry(from io.Reader, to io.Writer, delay time.Duration) {
	type frame struct {
		due  time.Time
		data []byte
	}
	way := make(chan frame, wireQueue)
	w.running.Go(func() {
		for f := range way {
			select {
			case <-time.After(time.Until(f.due)):
			case <-w.closing:
			}
			// A device that is not up yet takes nothing, as a cable that is not plugged in.
			if _, err := to.Write(f.data); err != nil && !errors.Is(err, unix.EIO) {
				w.fail(err)
			}
		}
	})
	defer close(way)
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			w.fail(err)
			return
		}
		way <- frame{time.Now().Add(delay), append([]byte(nil), buffer[:n]...)}
	}
}

// fail keeps the first error, unless the wire is being closed.
func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closing:
	default:
		if w.err == nil {
			w.err = fmt.Errorf("a wire: %w", err)
		}
	}
}

// close takes both devices away, and returns what has failed.
func (w *wire) close() error {
	w.mu.Lock()
	close(w.closing)
	w.mu.Unlock()
	var problems []error
	for _, end := range w.ends {
		if end != nil {
			problems = append(problems, end.Close())
		}
	}
	w.running.Wait()
	return errors.Join(append(problems, w.err)...)
}
