package fulldisk

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

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
