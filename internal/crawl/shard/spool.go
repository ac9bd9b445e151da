package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/schemas"
)

// Spool writes the images that came inline in one lane's pairs into tars, so that later stages can refer to them.
//
// The pairs alone decide every byte. A tar is named by the lane and the offset of the pair that began it. It grows by
// one entry for every image that it does not hold yet, and ends at a size. So a reference is the same however often the
// pairs are read. A spool that resumes from the [Spool.State] taken after some pair writes the same bytes again at the
// same offsets. It overwrites them and truncates nothing, because a fenced owner of the lane may still write the same
// bytes, and references to them may be in use.
//
// A tar that exists already and begins with another image belongs to another log. The spool refuses the folder, since
// references to that log's images may be in use.
//
// Not safe for concurrent use.
type Spool struct {
	dir    string // of the lane
	o      SpoolOptions
	at     spoolState
	file   *os.File // the open tar; nil: none
	images map[schemas.ImageID]schemas.ImageRef
}

// SpoolOptions gives the place of a spool and bounds its size.
type SpoolOptions struct {
	Root      string // folder, which is created if need be, or its file:// URL
	Namespace string // of the log; a folder below the root, unless it is empty
	Lane      int
	TarBytes  int64 // a tar ends with the entry that takes it to this size
	KeepBytes int64 // when a tar ends, the oldest tars beyond these bytes are deleted; 0: none
}

// spoolState is the position of the next entry.
type spoolState struct {
	first int64 // offset of the pair that began the open tar; -1: none is open
	bytes int64 // of the open tar
}

// ErrForeignSpool means that a spool's folder holds the images of another log.
var ErrForeignSpool = errors.New("the folder holds the images of another log")

// OpenSpool opens the spool of a lane. state is empty for the start of the lane.
func OpenSpool(o SpoolOptions, state []byte) (*Spool, error) {
	s, err := openSpool(o, state)
	if err != nil {
		return nil, fmt.Errorf("opening the spool of lane %d in %s: %w", o.Lane, o.Root, err)
	}
	return s, nil
}

func openSpool(o SpoolOptions, state []byte) (*Spool, error) {
	at, err := parseSpoolState(state)
	if err != nil {
		return nil, err
	}
	dir, err := laneFolder(o)
	if err != nil {
		return nil, err
	}
	s := &Spool{dir: dir, o: o, at: at}
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

// laneFolder creates the folder of a lane and returns its real path, which references name because a [Bucket] follows
// no links.
func laneFolder(o SpoolOptions) (string, error) {
	root := o.Root
	if o.Namespace == "." || o.Namespace == ".." {
		return "", fmt.Errorf("the namespace %q cannot name a folder", o.Namespace)
	}
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
	dir := filepath.Join(root, o.Namespace, fmt.Sprintf("lane-%05d", o.Lane))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	dir, err := realPath(dir)
	if err != nil {
		return "", err
	}
	return dir, atomicfile.SyncFolder(filepath.Dir(dir))
}

// parseSpoolState reads two varints: first + 1 and bytes.
func parseSpoolState(state []byte) (spoolState, error) {
	if len(state) == 0 {
		return spoolState{first: -1}, nil
	}
	first, n := binary.Uvarint(state)
	bytes, m := binary.Uvarint(state[max(n, 0):])
	if n <= 0 || m <= 0 || n+m != len(state) || bytes%blockSize != 0 {
		return spoolState{}, fmt.Errorf("%x is no state of a spool: want two varints", state)
	}
	return spoolState{first: int64(first) - 1, bytes: int64(bytes)}, nil
}

// State returns the position after the latest [Spool.Put] or [Spool.Roll].
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

// recall lists the images that the open tar holds up to the state.
func (s *Spool) recall() error {
	t := newTarReader(io.NewSectionReader(s.file, 0, s.at.bytes), s.at.bytes)
	for {
		e, err := t.next()
		fault, damaged := errors.AsType[*headerFault](err)
		switch {
		case errors.Is(err, io.EOF), damaged && fault.offset == s.at.bytes:
			if t.end != s.at.bytes {
				return fmt.Errorf("the entries end at %d, the state ends at %d", t.end, s.at.bytes)
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
	if ref, ok := s.images[id]; ok && s.file != nil {
		return ref, nil
	}
	ref, err := s.put(offset, id, encoded)
	if err != nil {
		err = fmt.Errorf("spooling image %s of the pair at offset %d: %w", id, offset, err)
	}
	return ref, err
}

func (s *Spool) put(offset int64, id schemas.ImageID, encoded []byte) (ref schemas.ImageRef, err error) {
	var entry bytes.Buffer
	at, err := NewWriter(&entry).Write(id.String(), File{Ext: Extension(encoded), Data: encoded})
	if err != nil {
		return ref, err
	}
	if s.file == nil {
		if err := s.begin(offset, entry.Bytes()); err != nil {
			return ref, err
		}
	}
	if _, err := s.file.WriteAt(entry.Bytes(), s.at.bytes); err != nil {
		return ref, err
	}
	ref = schemas.ImageRef{URI: FileURI(s.file.Name()), Offset: s.at.bytes + at[0], Size: int64(len(encoded))}
	s.images[id] = ref
	s.at.bytes += int64(entry.Len())
	if s.at.bytes >= s.o.TarBytes {
		return ref, s.Roll()
	}
	return ref, nil
}

// begin opens the tar that begins at an offset. An existing one was begun before a crash, with the same entry.
func (s *Spool) begin(offset int64, entry []byte) error {
	s.at = spoolState{first: offset}
	if err := s.open(); err != nil {
		return err
	}
	err := s.own(entry[:blockSize])
	if err == nil {
		err = atomicfile.SyncFolder(s.dir)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// own checks that the open tar is empty or begins with this log's header.
func (s *Spool) own(header []byte) error {
	there := make([]byte, blockSize)
	_, err := s.file.ReadAt(there, 0)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil && soundHeader(there) && !bytes.Equal(there, header):
		return fmt.Errorf("%w: %s begins with the image %s; set a folder that no other log has used, or delete this one",
			ErrForeignSpool, s.file.Name(), text0(there[:100]))
	}
	return err
}

// Extension returns the file name extension for an encoded image; "bin" if its format is unknown.
func Extension(encoded []byte) string {
	switch f := imaging.Sniff(encoded); f {
	case "jpeg":
		return "jpg"
	case "":
		return "bin"
	default:
		return f
	}
}

// Roll writes the end marker of the open tar; the next image begins a new one. A seal in the lane is a good moment.
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
	return s.collect()
}

// spoolTar matches the names of the spool's tars.
var spoolTar = regexp.MustCompile(`^\d{20}\.tar$`)

// collect deletes the oldest tars beyond the bytes to keep. Their images are masked when a stage needs them again.
// collect leaves files with other names alone.
func (s *Spool) collect() error {
	if s.o.KeepBytes <= 0 {
		return nil
	}
	entries, err := os.ReadDir(s.dir) // sorted by name, which is by age
	if err != nil {
		return fmt.Errorf("looking for old tars of the spool: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !spoolTar.MatchString(e.Name()) })
	left := s.o.KeepBytes
	for i, e := range slices.Backward(entries) {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !e.Type().IsRegular():
			continue
		case err != nil:
			return fmt.Errorf("looking at a tar of the spool: %w", err)
		}
		left -= info.Size()
		if left >= 0 || i >= len(entries)-2 { // pairs in hand may refer to the last two
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting an old tar of the spool: %w", err)
		}
	}
	return nil
}

// Sync makes the images put so far durable. Only then may references to them be published.
func (s *Spool) Sync() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("syncing the spool: %w", err)
	}
	return nil
}

// Close closes the open tar, without its end marker, so that a spool may resume.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
