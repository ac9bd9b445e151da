package broker

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestFaultyDisk lets call after call fail: one alone, or some in a row as on a disk that is full for a while. Clients
// ask again, and whoever runs the broker starts it again where it has stopped. In the end all is there that was
// acknowledged.
func TestFaultyDisk(t *testing.T) {
	calls := faulty(t, t.TempDir(), 0, 0, nil)
	t.Logf("%d calls", calls)
	all := new(errgroup.Group)
	all.SetLimit(4)
	for name, f := range map[string]struct {
		err  error
		ops  string
		long int
	}{
		"full":          {syscall.ENOSPC, opMake + opOpen + opWrite + opRename, 1},
		"full for long": {syscall.ENOSPC, opMake + opOpen + opWrite + opRename, 40},
		"broken":        {syscall.EIO, "", 1},
	} {
		for n := 1; n <= calls; n += soak.Choose(3, 1) {
			all.Go(func() error {
				faulty(t, filepath.Join(t.TempDir(), fmt.Sprint(name, n)), n, f.long, func(op string) error {
					if f.ops == "" || strings.Contains(f.ops, op) {
						return f.err
					}
					return nil
				})
				return nil
			})
		}
	}
	must.Do(t, all.Wait())
}

// faulty tells the story on a disk that fails from call n on, so many times. It returns the number of calls.
func faulty(t *testing.T, dir string, n, long int, fails func(op string) error) int {
	var calls, failed atomic.Int64
	disk := &testDisk{before: func(op, path string) error {
		if calls.Add(1) < int64(n) || fails == nil || failed.Load() >= int64(long) || !strings.HasPrefix(path, filepath.Join(dir, "log")) {
			return nil
		}
		err := fails(op)
		if err != nil {
			failed.Add(1)
		}
		return err
	}}
	s := &story{options: Options{DataDir: dir, disk: disk, compactMin: 1}}
	for i, step := range s.steps() {
		err := s.insist(step)
		if err != nil {
			t.Errorf("call %d, step %d: %v", n, i, err)
			return 0
		}
	}
	if err := survives(dir, s.now()); err != nil {
		t.Errorf("call %d: %v", n, err)
	}
	return int(calls.Load())
}

// insist repeats a step until it is done. It starts a broker that has stopped.
func (s *story) insist(step func() error) (err error) {
	for range 100 {
		if err = step(); err == nil {
			return nil
		}
		if s.broker != nil && s.broker.failure() != nil {
			_ = s.stop() // it says again why it has stopped
		}
		for tries := 0; s.broker == nil && tries < 100; tries++ {
			if err = s.start(); err != nil {
				s.broker = nil
			}
		}
		if s.broker == nil {
			return err
		}
		if s.client, err = newAsker(s.broker); err != nil {
			return err
		}
	}
	return err
}
