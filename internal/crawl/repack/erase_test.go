package repack

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestErase overwrites the copies of two images. All others stay, and places outside the roots are refused.
func TestErase(t *testing.T) {
	w := newWorld(t, 40)
	dir := t.TempDir()
	root := shard.FileURI(dir)
	w.run(t, shard.Folder(dir), options(t, root, 2))
	erase := map[int]bool{6: true, 20: true}
	copies := []schemas.ImageRef{{URI: root + "/none.tar", Size: 3, Copy: w.ids[0]}}
	for i := range erase {
		ref, _ := w.chunks[0].Copy(i)
		copies = append(copies, ref)
	}
	before := files(t, dir)
	if _, err := Erase(t.Context(), []string{shard.FileURI(t.TempDir())}, copies); !errors.Is(err, shard.ErrForbidden) || !maps.Equal(files(t, dir), before) {
		t.Errorf("outside the roots: %v, want %v", err, shard.ErrForbidden)
	}
	for _, want := range []int{2, 0} {
		if n, err := Erase(t.Context(), []string{root}, copies); n != want || err != nil {
			t.Errorf("erased %d copies, %v, want %d", n, err, want)
		}
	}
	bucket := must.Get(shard.OpenBucket(t.Context(), []string{root}, nil))(t)
	for i := range w.ids {
		ref, _ := w.chunks[0].Copy(i)
		_, err := bucket.ReadRange(t.Context(), ref, w.ids[i])
		if gone := errors.Is(err, shard.ErrHashMismatch); gone != erase[i/2*2] || !gone && err != nil {
			t.Errorf("member %d: %v", i, err)
		}
	}
	must.Check(t, bucket.Close())
	tars, _ := filepath.Glob(dir + "/*/*")
	if info, err := os.Stat(tars[0]); len(tars) != 1 || err != nil || info.Size() != int64(len(before[tars[0][len(dir):]])) {
		t.Errorf("the folder has %v, want the tar alone, as large as before (%v)", tars, err)
	}
}
