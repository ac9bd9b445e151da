package broker

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// Answers are synced while kfake replaces its files, as it does when it closes. The race detector looks on.
func TestAnswersAreSyncedBesideRenames(t *testing.T) {
	dir := t.TempDir()
	s := newStorage(nil, dir, slog.New(slog.DiscardHandler))
	path := filepath.Join(dir, "groups.log")
	f := must.Get(s.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600))(t)
	must.Get(f.Write([]byte("x")))(t)
	must.Do(t, f.Close())
	must.Do(t, s.settleAll()) // from here on nothing is left to sync
	var working sync.WaitGroup
	working.Go(func() {
		for range 50 {
			must.Check(t, s.settleAll())
		}
	})
	for range 50 {
		next := must.Get(s.OpenFile(path+".json.tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600))(t)
		must.Get(next.Write([]byte("{}")))(t)
		must.Do(t, next.Close())
		must.Do(t, s.Rename(path+".json.tmp", path+".json"))
	}
	working.Wait()
}
