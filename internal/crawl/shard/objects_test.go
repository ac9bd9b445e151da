package shard_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestFolderOpensFilesAlone has a pipe, by its own name and by that of a link. Who opens it waits for its writer.
func TestFolderOpensFilesAlone(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), []byte("abc"), 0o600))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must.Do(t, os.Symlink("pipe", filepath.Join(dir, "link")))
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	folder := shard.Folder(dir)
	sizes := must.Get(folder.Sizes(t.Context()))(t)
	if _, found := sizes["pipe"]; found || sizes["file"] != 3 {
		t.Errorf("sizes %v, want no pipe and a file of 3 bytes", sizes)
	}
	must.Do(t, must.Get(folder.Open(t.Context(), "file"))(t).Close())
	for _, name := range []string{"pipe", "link", "folder"} {
		if _, err := folder.Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
