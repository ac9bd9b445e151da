// Package fulldisk lets tests run out of disk. It is for tests only.
//
// [With] limits the size of files, which needs no privileges and no file system of its own. The limit holds for a process,
// so such a test runs in a separate one. [Mount] makes a small file system, for processes that a test starts.
//
//	func TestOnAFullDisk(t *testing.T) {
//		if !fulldisk.Alone(t) {
//			return
//		}
//		fulldisk.With(t, 4096, func() { err = write() })
package fulldisk

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

const child = "PAIRSTREAM_TEST_ALONE"

// Alone reports whether the test runs in a process of its own. Otherwise it starts one, waits for it, and fails the test
// if it fails there.
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
