package fetch

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// spool keeps the images of a shard on disk until their turn comes. It has room for images that come early, so a server that
// is slow holds up no other.
type spool struct {
	file *os.File

	mu  sync.Mutex
	end int64
}

// span is where an image lies.
type span struct{ at, size int64 }

func newSpool() (*spool, error) {
	file, err := scratch()
	if err != nil {
		return nil, err
	}
	return &spool{file: file}, nil
}

// add appends an image. Several goroutines may add at once.
func (s *spool) add(data []byte) (span, error) {
	s.mu.Lock()
	p := span{s.end, int64(len(data))}
	s.end += p.size
	s.mu.Unlock()
	if _, err := s.file.WriteAt(data, p.at); err != nil {
		return p, fmt.Errorf("keeping an image of %d bytes: %w", p.size, err)
	}
	return p, nil
}

func (s *spool) read(p span) ([]byte, error) {
	data := make([]byte, p.size)
	if _, err := s.file.ReadAt(data, p.at); err != nil {
		return nil, fmt.Errorf("reading an image back: %w", err)
	}
	return data, nil
}

// close removes the spool.
func (s *spool) close() error { return s.file.Close() }

// scratch opens a temporary file that has no name, so it goes when it is closed, or when the process is killed.
func scratch() (*os.File, error) {
	file, err := os.CreateTemp("", "pairstream-fetch-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
