package broker

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

const (
	segmentExt = ".dat"
	indexExt   = ".idx"
	removedExt = ".removed" // a folder that is being removed
	damagedExt = ".damaged" // bytes that were set aside

	topicsFile    = "topics.json"
	metaFile      = "meta.json"
	groupsFile    = "groups.log"
	producersFile = "pids.log"
	snapshotFile  = "snapshot.json"      // of a partition that was closed
	sessionsFile  = "session_state.json" // of members of groups
	windowsFile   = "seq_windows.json"   // of producers
)

// appended is a file that kfake appends to, or writes from its beginning.
type appended struct {
	file
	s    *storage
	path string
	size int64
}

// Write appends all or nothing.
func (f *appended) Write(p []byte) (int, error) {
	if f.s.isFrozen() {
		return 0, errFrozen
	}
	n, err := f.file.Write(p)
	if err != nil {
		if cut := f.file.Truncate(f.size); cut != nil && n > 0 {
			_ = f.s.fail(fmt.Errorf("cutting a partial write: %w", cut))
		}
		return 0, f.s.refused(f.path, err)
	}
	f.size += int64(n)
	f.s.written(f.path)
	return n, nil
}

// Truncate is kfake's repair after a failed write. Write has already cut the file.
func (f *appended) Truncate(size int64) error {
	if size == f.size {
		return nil
	}
	if f.s.isFrozen() {
		return errFrozen
	}
	err := f.file.Truncate(size)
	if err != nil {
		return f.s.fail(err)
	}
	f.size = size
	f.s.written(f.path)
	return nil
}

// Sync does nothing: answers wait for the sync of the data that they report, and a rename syncs.
func (*appended) Sync() error { return nil }

// noFile stands in for an index file, which is not kept.
type noFile struct{}

func (noFile) Write(p []byte) (int, error)    { return len(p), nil }
func (noFile) Read([]byte) (int, error)       { return 0, io.EOF }
func (noFile) Close() error                   { return nil }
func (noFile) Seek(int64, int) (int64, error) { return 0, nil }
func (noFile) Truncate(int64) error           { return nil }
func (noFile) Sync() error                    { return nil }

// sealed is a JSON file being written. It gets its checksum as a first field, which other readers ignore.
type sealed struct {
	noFile
	content []byte
}

// Write collects.
func (f *sealed) Write(p []byte) (int, error) {
	f.content = append(f.content, p...)
	return len(p), nil
}

func (s *storage) seal(name string) file {
	f := new(sealed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealing[name] = f
	return f
}

func (f *sealed) writeTo(d disk, name string) error {
	out, err := d.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(withSum(f.content))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

const (
	sumBegin = `{"crc32c":"`
	sumEnd   = `",`
	sumLen   = len(sumBegin) + 8 + len(sumEnd)
)

// withSum puts a checksum into a JSON object.
func withSum(object []byte) []byte {
	if len(object) < len(`{"":0}`) || object[0] != '{' {
		return object
	}
	return fmt.Appendf(nil, `%s%08x%s%s`, sumBegin, crc32.Checksum(object[1:], castagnoli), sumEnd, object[1:])
}

// withoutSum returns the original object. One without a checksum comes from an earlier version.
func withoutSum(path string, raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte(sumBegin)) {
		return raw, nil
	}
	if len(raw) > sumLen {
		sum := fmt.Sprintf("%08x", crc32.Checksum(raw[sumLen:], castagnoli))
		if string(raw[len(sumBegin):sumLen]) == sum+sumEnd {
			return append([]byte{'{'}, raw[sumLen:]...), nil
		}
	}
	return nil, &DamageError{Path: path, At: -1, Offset: -1, What: "it does not match its checksum"}
}
