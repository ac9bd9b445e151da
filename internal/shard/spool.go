package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/durable"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// Spool writes the images that came inline in one lane's pairs into tars, so that the stages behind can refer to them.
//
// What it writes is decided by the pairs alone: a tar is named by the lane and the offset of the pair that began it,
// grows by one entry for every image that it does not hold yet, and ends at a size. So a reference is the same however
// often the pairs are read, and a spool that resumes from the [Spool.State] taken after some pair writes the bytes
// behind it again, the same at the same places. It overwrites and cuts nothing off on the way: another owner of the lane,
// fenced but still writing, writes those very bytes, and references to them may be on their way.
//
// Not safe for concurrent use.
type Spool struct {
	dir      string // of the lane
	maxBytes int64
	at       spoolState
	file     *os.File // the open tar; nil: none
	images   map[schemas.ImageID]schemas.ImageRef
}

// spoolState is where the next entry goes.
type spoolState struct {
	first int64 // offset of the pair that began the open tar; -1: none is open
	bytes int64 // of the open tar
}

// OpenSpool opens the spool of a lane below a folder, which it creates, or which is given as a file:// URL. A tar ends
// with the entry that takes it to maxBytes. state is empty for the start of the lane.
func OpenSpool(root string, lane int, maxBytes int64, state []byte) (*Spool, error) {
	s, err := openSpool(root, lane, maxBytes, state)
	if err != nil {
		return nil, fmt.Errorf("opening the spool of lane %d in %s: %w", lane, root, err)
	}
	return s, nil
}

func openSpool(root string, lane int, maxBytes int64, state []byte) (*Spool, error) {
	at, err := parseSpoolState(state)
	if err != nil {
		return nil, err
	}
	dir, err := laneFolder(root, lane)
	if err != nil {
		return nil, err
	}
	s := &Spool{dir: dir, maxBytes: maxBytes, at: at}
	if at.first < 0 {
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.recall(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", s.file.Name(), err), s.Close())
	}
	return s, nil
}

// laneFolder creates the folder of a lane and returns its real path, which references name because a [Bucket] follows no
// links.
func laneFolder(root string, lane int) (string, error) {
	if strings.Contains(root, "://") {
		u, err := url.Parse(root)
		if err != nil {
			return "", err
		}
		if u.Scheme != "file" {
			return "", errors.New("a spool grows in place, which only file systems can: want a folder or file:// URL")
		}
		root = u.Path
	}
	dir, err := filepath.Abs(filepath.Join(root, fmt.Sprintf("lane-%05d", lane)))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return dir, durable.SyncFolder(filepath.Dir(dir))
}

// parseSpoolState reads two varints: first + 1 and bytes.
func parseSpoolState(state []byte) (spoolState, error) {
	if len(state) == 0 {
		return spoolState{first: -1}, nil
	}
	first, n := binary.Uvarint(state)
	bytes, m := binary.Uvarint(state[max(n, 0):])
	if n <= 0 || m <= 0 || n+m != len(state) || bytes%blockSize != 0 {
		return spoolState{}, fmt.Errorf("state %x is none of a spool", state)
	}
	return spoolState{first: int64(first) - 1, bytes: int64(bytes)}, nil
}

// State says where the spool stands after the latest [Spool.Put] or [Spool.Roll].
func (s *Spool) State() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(s.at.first+1)), uint64(s.at.bytes))
}

// open opens the tar of the state, creating it if need be.
func (s *Spool) open() error {
	f, err := os.OpenFile(filepath.Join(s.dir, fmt.Sprintf("%020d.tar", s.at.first)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	s.file, s.images = f, map[schemas.ImageID]schemas.ImageRef{}
	return nil
}

// recall reads which images the open tar holds up to the state.
func (s *Spool) recall() error {
	t := newTarReader(io.NewSectionReader(s.file, 0, s.at.bytes), s.at.bytes)
	for {
		e, err := t.next()
		var fault *headerFault
		switch {
		case errors.Is(err, io.EOF), errors.As(err, &fault) && fault.offset == s.at.bytes:
			if t.end != s.at.bytes {
				return fmt.Errorf("the entries end at %d, the state says %d", t.end, s.at.bytes)
			}
			return nil
		case err != nil:
			return err
		}
		hex, _, _ := strings.Cut(e.name, ".")
		id, err := schemas.ParsePairID(hex) // image ids are written alike
		if err != nil {
			return fmt.Errorf("entry %q at offset %d: %w", e.name, e.header, err)
		}
		s.images[schemas.ImageID(id)] = schemas.ImageRef{URI: FileURI(s.file.Name()), Offset: e.data, Size: e.size}
	}
}

// Put writes the image of the pair at an offset of the lane, unless the open tar has it already, and returns the
// reference to it. The reference holds after [Spool.Sync].
func (s *Spool) Put(offset int64, encoded []byte) (schemas.ImageRef, error) {
	id := schemas.NewImageID(encoded)
	if s.file != nil {
		if ref, ok := s.images[id]; ok {
			return ref, nil
		}
	}
	ref, err := s.put(offset, id, encoded)
	if err != nil {
		return ref, fmt.Errorf("spooling image %s of the pair at offset %d: %w", id, offset, err)
	}
	return ref, nil
}

func (s *Spool) put(offset int64, id schemas.ImageID, encoded []byte) (ref schemas.ImageRef, err error) {
	if s.file == nil {
		s.at = spoolState{first: offset}
		if err := s.open(); err != nil {
			return ref, err
		}
		if err := durable.SyncFolder(s.dir); err != nil {
			return ref, errors.Join(err, s.Close())
		}
	}
	var entry bytes.Buffer
	at, err := NewWriter(&entry).Write(id.String(), File{Ext: extensionOf(encoded), Data: encoded})
	if err != nil {
		return ref, err
	}
	if _, err := s.file.WriteAt(entry.Bytes(), s.at.bytes); err != nil {
		return ref, err
	}
	ref = schemas.ImageRef{URI: FileURI(s.file.Name()), Offset: s.at.bytes + at[0], Size: int64(len(encoded))}
	s.images[id] = ref
	s.at.bytes += int64(entry.Len())
	if s.at.bytes >= s.maxBytes {
		return ref, s.Roll()
	}
	return ref, nil
}

func extensionOf(encoded []byte) string {
	switch f := imaging.Sniff(encoded); f {
	case "jpeg":
		return "jpg"
	case "":
		return "bin"
	default:
		return f
	}
}

// Roll ends the open tar with its end marker; the next image begins a new one. A seal in the lane is a good place.
func (s *Spool) Roll() error {
	if s.file == nil {
		return nil
	}
	f, end := s.file, s.at.bytes
	_, err := f.WriteAt(make([]byte, 2*blockSize), end)
	if err == nil {
		// An earlier crawl may have left a longer tar of this name.
		err = f.Truncate(end + 2*blockSize)
	}
	if err == nil {
		err = f.Sync()
	}
	s.file, s.images, s.at = nil, nil, spoolState{first: -1}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("ending the spool's tar %s: %w", f.Name(), err)
	}
	return nil
}

// Sync makes what was put durable. Only then may references to it be published.
func (s *Spool) Sync() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("syncing the spool: %w", err)
	}
	return nil
}

// Close closes the open tar, which stays open to a spool that resumes.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
