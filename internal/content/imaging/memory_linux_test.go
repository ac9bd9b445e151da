//go:build cgo

package imaging

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// TestMemoryOfLargePicturesGoesBack decodes progressive pictures of 16 megapixels on several threads. C keeps nothing
// of the 48 or 96 MB that each of them takes, whichever thread it was.
func TestMemoryOfLargePicturesGoesBack(t *testing.T) {
	pictures := torture.ManyLarge()
	must.Do(t, Check(pictures[0].Encode()))
	before := resident(t)
	var threads sync.WaitGroup
	for _, p := range pictures[:8] {
		threads.Go(func() {
			runtime.LockOSThread() // with the end of the goroutine the thread ends, and leaves its arena behind
			must.Check(t, Check(p.Encode()))
		})
	}
	threads.Wait()
	if grown := resident(t) - before; grown > returnAbove {
		t.Errorf("%d MiB more than before are resident, want at most %d", grown>>20, returnAbove>>20)
	}
}

// resident returns the memory of this process that no file backs.
func resident(t *testing.T) (bytes int64) {
	t.Helper()
	status := must.Get(os.ReadFile("/proc/self/status"))(t)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	must.Get(fmt.Sscan(rest, &bytes))(t)
	return bytes << 10
}
