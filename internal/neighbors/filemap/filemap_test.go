//go:build linux && cgo

package filemap_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/filemap"
	"github.com/pairstream/pairstream/internal/testing/must"
)

const size = 64 << 10

// file makes a file of sevens.
func file(t *testing.T) *os.File {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	must.Get(f.Write(bytes.Repeat([]byte{7}, size)))(t)
	t.Cleanup(func() { must.Check(t, f.Close()) })
	return f
}

// TestCutFileBecomesZeros cuts a file while several goroutines read its mapping. Another file stays as it is.
func TestCutFileBecomesZeros(t *testing.T) {
	f := file(t)
	m, other := must.Get(filemap.Map(f))(t), must.Get(filemap.Map(file(t)))(t)
	if bytes.Count(m.Bytes(), []byte{7}) != size || m.Err() != nil {
		t.Fatalf("%d bytes, %v", len(m.Bytes()), m.Err())
	}
	must.Do(t, f.Truncate(size/2))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if n := bytes.Count(m.Bytes(), []byte{7}); n != size/2 {
				t.Errorf("%d bytes are left, want %d", n, size/2)
			}
		})
	}
	all.Wait()
	if !errors.Is(m.Err(), filemap.ErrCut) {
		t.Errorf("error %v", m.Err())
	}
	if bytes.Count(other.Bytes(), []byte{7}) != size || other.Err() != nil {
		t.Errorf("the other file: %v", other.Err())
	}
	must.Do(t, errors.Join(m.Close(), m.Close(), other.Close()))
	again := must.Get(filemap.Map(file(t)))(t) // in a place that is free again
	if err := again.Err(); err != nil {
		t.Errorf("another mapping: %v", err)
	}
	must.Do(t, again.Close())
}

func TestEmptyFile(t *testing.T) {
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer f.Close()
	m := must.Get(filemap.Map(f))(t)
	if len(m.Bytes()) != 0 || m.Err() != nil {
		t.Errorf("%d bytes, %v", len(m.Bytes()), m.Err())
	}
	must.Do(t, m.Close())
}

// TestOtherFaultsStayGos cuts a file that somebody else has mapped. The Go runtime gets that fault, and makes it a
// panic.
func TestOtherFaultsStayGos(t *testing.T) {
	must.Do(t, must.Get(filemap.Map(file(t)))(t).Close()) // the handler is there
	f := file(t)
	raw := must.Get(syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED))(t)
	defer func() { must.Check(t, syscall.Munmap(raw)) }()
	must.Do(t, f.Truncate(0))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("bytes behind the end of a file were read")
		}
	}()
	t.Log(raw[0])
}
