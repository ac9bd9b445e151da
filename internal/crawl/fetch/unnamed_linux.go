package fetch

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamed opens a temporary file that never had a name. Not every file system can.
func unnamed() (*os.File, error) {
	return os.OpenFile(os.TempDir(), os.O_RDWR|unix.O_TMPFILE, 0o600)
}
