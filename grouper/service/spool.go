package service

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pairstream/pairstream/internal/stream"
)

// spool is a [grouper.Store] of files without names, which the system deletes with the process.
type spool struct {
	dir   string // empty: the system's folder for temporary files
	files map[int64]*os.File
}

// Put implements [grouper.Store]. A disk that is full may have room again.
func (s *spool) Put(group int64, state []byte) error {
	if err := s.write(group, state); err != nil {
		return stream.Transient(fmt.Errorf("keeping group %d for its next epoch in GROUPER_SPOOL_DIR %q: %w", group, s.dir, err))
	}
	return nil
}

func (s *spool) write(group int64, state []byte) error {
	f := s.files[group]
	if f == nil {
		if s.dir != "" {
			if err := os.MkdirAll(s.dir, 0o755); err != nil {
				return err
			}
		}
		var err error
		if f, err = os.CreateTemp(s.dir, "group-*"); err != nil {
			return err
		}
		if err := os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		if s.files == nil {
			s.files = make(map[int64]*os.File)
		}
		s.files[group] = f
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(state, 0)
	return err
}

// Get implements [grouper.Store].
func (s *spool) Get(group int64) ([]byte, error) {
	f := s.files[group]
	if f == nil {
		return nil, fmt.Errorf("group %d was not kept", group)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading group %d: %w", group, err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("reading group %d: %w", group, err)
	}
	return raw, nil
}

// Clear implements [grouper.Store].
func (s *spool) Clear() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	s.files = nil
	return err
}
