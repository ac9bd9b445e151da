// Package durable makes changes to folders outlast a loss of power.
package durable

import (
	"errors"
	"os"
)

// SyncFolder puts what was made, renamed or removed in a folder onto the disk; the files themselves are synced by
// (*os.File).Sync.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
