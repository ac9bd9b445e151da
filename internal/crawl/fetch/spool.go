package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// chunkBytes is the memory of a download. A larger image takes several chunks of the spool.
const chunkBytes = 128 << 10

// spool keeps the images of a shard on disk until their turn comes, so that a slow server does not delay the others.
// Chunks of dropped images are used again.
type spool struct {
	mu   sync.Mutex
	file *os.File // nil until something is kept
	end  int64
	free []chunk // of chunkBytes each
}

// chunk is the position and size of a part of an image in the spool.
type chunk struct{ at, size int64 }

func sizeOf(image []chunk) (size int64) {
	for _, p := range image {
		size += p.size
	}
	return size
}

func newSpool() (*spool, error) {
	file, err := scratch()
	if err != nil {
		return nil, err
	}
	return &spool{file: file}, nil
}

var buffers = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// localError is a fault of this machine, which ends the run; rows have no such outcome.
type localError struct{ error }

// take reads an image to its end. It returns a *failure when the body is no image or too large, and a *localError when
// the disk fails. It is safe for concurrent use.
func (s *spool) take(body io.Reader, most int64) (image []chunk, err error) {
	defer func() {
		if err != nil {
			s.drop(image)
			image = nil
		}
	}()
	buf := buffers.Get().(*[chunkBytes]byte)
	defer buffers.Put(buf)
	var size int64
	for ended := false; !ended; {
		var n int
		if n, ended, err = readFull(body, buf[:min(chunkBytes, most+1-size)]); err != nil {
			return image, err
		}
		switch size += int64(n); {
		case size > most:
			return image, tooLarge(most)
		case size == 0:
			return image, &failure{reasonEmpty, "the body has no bytes"}
		case image == nil && shard.Extension(buf[:n]) == "bin":
			return image, &failure{reasonNoImage, "the body is no JPEG, PNG or WebP"}
		case n == 0:
			return image, nil
		}
		part, err := s.add(buf[:n])
		if image = append(image, part); err != nil {
			return image, &localError{err}
		}
	}
	return image, nil
}

// readFull reads until the buffer is full or the body has ended.
func readFull(body io.Reader, buf []byte) (n int, ended bool, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = body.Read(buf[n:])
		n += more
	}
	switch {
	case errors.Is(err, io.EOF):
		return n, true, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, false, &failure{reasonCut, "the body ends early"}
	}
	return n, false, classify(err)
}

// add appends a part.
func (s *spool) add(data []byte) (chunk, error) {
	s.mu.Lock()
	if s.file == nil {
		var err error
		if s.file, err = scratch(); err != nil {
			s.mu.Unlock()
			return chunk{}, err
		}
	}
	p := chunk{s.end, int64(len(data))}
	if last := len(s.free) - 1; last >= 0 && len(data) == chunkBytes {
		p, s.free = s.free[last], s.free[:last]
	} else {
		s.end += p.size
	}
	s.mu.Unlock()
	if _, err := s.file.WriteAt(data, p.at); err != nil {
		return p, fmt.Errorf("keeping %d bytes of an image in %s: %w", p.size, os.TempDir(), err)
	}
	return p, nil
}

// drop gives the chunks of an image back.
func (s *spool) drop(image []chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range image {
		if p.size == chunkBytes {
			s.free = append(s.free, p)
		}
	}
}

func (s *spool) read(image []chunk) ([]byte, error) {
	data := make([]byte, sizeOf(image))
	for at := data; len(image) > 0; image = image[1:] {
		if _, err := s.file.ReadAt(at[:image[0].size], image[0].at); err != nil {
			return nil, fmt.Errorf("reading an image back: %w", err)
		}
		at = at[image[0].size:]
	}
	return data, nil
}

// close removes the spool.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// scratch opens a temporary file without a name, which vanishes when it is closed or the process is killed.
func scratch() (*os.File, error) {
	if file, err := unnamed(); err == nil {
		return file, nil
	}
	file, err := os.CreateTemp("", "pairstream-fetch-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// putBytes stores a small file.
func putBytes(ctx context.Context, s Store, name string, data []byte) error {
	f, err := scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return s.Put(ctx, name, f)
}
