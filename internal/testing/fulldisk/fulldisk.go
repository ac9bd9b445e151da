// Package fulldisk lets tests run out of disk. It is for tests only.
//
// [With] limits the size of files, which needs no privileges and no file system of its own. The limit holds for a
// process, so such a test runs in a separate one. [Mount] makes a small file system, for processes that a test starts.
//
//	func TestOnAFullDisk(t *testing.T) {
//		if !fulldisk.Alone(t) {
//			return
//		}
//		fulldisk.With(t, 4096, func() { err = write() })
package fulldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

const child = "PAIRSTREAM_TEST_ALONE"

// Alone reports whether the test runs in a process of its own. Otherwise it starts one, waits for it, and fails the
// test if it fails there.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(child) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// With calls do while no file can grow beyond room bytes. Writes then fail with EFBIG, in part or at once, as they fail
// with ENOSPC on a full disk.
func With(t testing.TB, room uint64, do func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatalf("reading the limit of file sizes: %v", err)
	}
	signal.Ignore(syscall.SIGXFSZ) // otherwise the first write would end the process
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: before.Max}); err != nil {
		t.Fatalf("limiting file sizes: %v", err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatalf("lifting the limit of file sizes: %v", err)
		}
	}()
	do()
}

// Disk is a small file system in memory.
type Disk struct{ Dir string }

// Mount makes a disk of so many bytes, and unmounts it at the end of the test. Without the privilege to mount, it skips
// the test.
func Mount(t *testing.T, bytes int64) Disk {
	t.Helper()
	d := Disk{t.TempDir()}
	err := syscall.Mount("pairstream-test", d.Dir, "tmpfs", 0, size(bytes))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) {
		t.Skipf("a disk to fill needs a privilege: mounting a tmpfs: %v", err)
	}
	if err != nil {
		t.Fatalf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting a tmpfs: %v", err)
		}
	})
	return d
}

// Resize sets the size of the disk, which makes room or takes some away.
func (d Disk) Resize(t *testing.T, bytes int64) {
	t.Helper()
	if err := syscall.Mount("", d.Dir, "", syscall.MS_REMOUNT, size(bytes)); err != nil {
		t.Fatalf("resizing a tmpfs: %v", err)
	}
}

func size(bytes int64) string { return fmt.Sprintf("size=%d", bytes) }
