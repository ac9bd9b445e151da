package service

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pairstream/pairstream/internal/log/stream"
)

// spool is a [grouper.Store] of files without names, which the system deletes with the process.
type spool struct {
	dir   string // empty: the system's folder for temporary files
	files map[int64]*os.File
}

// Put implements [grouper.Store]. A disk that is full may have room again.
func (s *spool) Put(group int64, write func(io.Writer) error) error {
	f, err := s.file(group)
	if err == nil {
		err = write(f)
	}
	if err != nil {
		return stream.Transient(fmt.Errorf("keeping group %d for its next epoch in the folder for temporary files (TMPDIR): %w", group, err))
	}
	return nil
}

// file returns the file of a group, empty.
func (s *spool) file(group int64) (*os.File, error) {
	if f := s.files[group]; f != nil {
		_, err := f.Seek(0, io.SeekStart)
		return f, errors.Join(err, f.Truncate(0))
	}
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(s.dir, "group-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if s.files == nil {
		s.files = make(map[int64]*os.File)
	}
	s.files[group] = f
	return f, nil
}

// Get implements [grouper.Store].
func (s *spool) Get(group int64, read func(io.Reader) error) error {
	f := s.files[group]
	if f == nil {
		return fmt.Errorf("group %d was not kept", group)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading group %d: %w", group, err)
	}
	return read(f)
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
