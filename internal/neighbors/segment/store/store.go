// Package store keeps segments (package segment) in a folder or in a bucket, for any number of writers and readers.
//
// A segment's name has its namespace, model, lane, number and digest. It appears whole, and never changes: a second
// writer of a name writes the same bytes. A segment in a folder is mapped in place. One in a bucket is first copied
// into an unnamed file in the folder for temporary files (TMPDIR), and mapped there.
//
// A Store is safe for concurrent use.
package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// Name identifies a segment.
type Name struct {
	Lane   int    `json:"lane"`
	Seq    int64  `json:"seq"`
	Digest string `json:"digest"` // of the segment's bytes
}

// ID returns the id of the segment's group.
func (n Name) ID() schemas.GroupID { return schemas.GroupID{Lane: int32(n.Lane), Seq: n.Seq} }

// NameOf returns the name of a segment.
func NameOf(s *segment.Segment) Name { return Name{int(s.Group.Lane), s.Group.Seq, s.Digest()} }

// Compare orders names by the number of the group, then by lane.
func Compare(a, b Name) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Digest, b.Digest))
}

const suffix = ".segment"

// Store holds the segments of one namespace.
type Store struct {
	root      string
	place     shard.Place
	namespace string
}

// Open opens the root of segments: a folder or its file URL, s3://bucket/prefix or gs://bucket/prefix.
func Open(ctx context.Context, root, namespace string) (*Store, error) {
	if namespace == "" {
		namespace = "default"
	}
	place, err := shard.OpenPlace(ctx, root, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the place of segments: %w", err)
	}
	if folder, ok := place.(shard.Folder); ok {
		if err := os.MkdirAll(string(folder), 0o755); err != nil {
			return nil, fmt.Errorf("making the folder of segments: %w", err)
		}
	}
	return &Store{root: root, namespace: namespace, place: place}, nil
}

// Close closes the store. Segments from it stay open.
func (s *Store) Close() error { return s.place.Close() }

// folderOf returns the folder of a model's segments.
func (s *Store) folderOf(model string) string {
	sum := sha256.Sum256([]byte(model))
	return path.Join(s.namespace, hex.EncodeToString(sum[:8]))
}

func (n Name) file() string { return fmt.Sprintf("%d-%d-%s%s", n.Lane, n.Seq, n.Digest, suffix) }

// parse reads the name of a file.
func parse(file string) (Name, bool) {
	base, isSegment := strings.CutSuffix(file, suffix)
	parts := strings.Split(base, "-")
	if !isSegment || len(parts) != 3 {
		return Name{}, false
	}
	lane, err := strconv.ParseInt(parts[0], 10, 32)
	seq, err2 := strconv.ParseInt(parts[1], 10, 64)
	n := Name{int(lane), seq, parts[2]}
	return n, errors.Join(err, err2) == nil && n.file() == file
}

// Put writes a segment.
func (s *Store) Put(ctx context.Context, segment *segment.Segment) (Name, error) {
	name := NameOf(segment)
	at := path.Join(s.folderOf(segment.Model), name.file())
	err := s.place.Rewrite(ctx, at, func(w io.Writer) error {
		_, err := w.Write(segment.Bytes())
		return err
	})
	if err != nil {
		return name, fmt.Errorf("writing the segment of group %s to %s: %w", segment.Group, s.root, err)
	}
	return name, nil
}

// List returns the names of a model's segments, in their order.
func (s *Store) List(ctx context.Context, model string) ([]Name, error) {
	all, err := s.place.Sizes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the segments in %s: %w", s.root, err)
	}
	var names []Name
	folder := s.folderOf(model)
	for file := range all {
		if n, ok := parse(path.Base(file)); ok && path.Dir(file) == folder {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, Compare)
	return names, nil
}

// Each calls do with every segment of the namespace that seen does not report, in the order of their files' names, or
// with the error of reading it. do owns the segment. Each reads only a part of its bytes.
func (s *Store) Each(ctx context.Context, seen func(file string) bool, do func(file string, one *segment.Segment, err error)) error {
	all, err := s.place.Sizes(ctx)
	if err != nil {
		return fmt.Errorf("listing the segments in %s: %w", s.root, err)
	}
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if _, ok := parse(path.Base(file)); !ok || seen(file) || path.Dir(path.Dir(file)) != s.namespace {
			continue
		}
		one, err := s.read(ctx, file)
		if err == nil && !s.belongs(one, file) { // its number would decide which model is searched
			err = errors.Join(fmt.Errorf("%w of that name: %s in %s holds group %s of model %.100q", segment.ErrInvalid, file, s.root, one.Group, one.Model), one.Close())
			one = nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), closed(one))
		}
		do(file, one, err)
	}
	return nil
}

// belongs reports whether a segment matches its file's name, as far as its header shows.
func (s *Store) belongs(one *segment.Segment, file string) bool {
	name, ok := parse(path.Base(file))
	return ok && name.ID() == one.Group && s.folderOf(one.Model) == path.Dir(file)
}

func closed(one *segment.Segment) error {
	if one == nil {
		return nil
	}
	return one.Close()
}

// Get maps a segment, after it has checked all of its bytes. The error for a missing one wraps [fs.ErrNotExist].
func (s *Store) Get(ctx context.Context, model string, name Name) (*segment.Segment, error) {
	one, err := s.read(ctx, path.Join(s.folderOf(model), name.file()))
	if err != nil {
		return nil, err
	}
	if NameOf(one) != name || one.Model != model {
		return nil, errors.Join(fmt.Errorf("%w: %s in %s is that of group %s with the digest %s", segment.ErrInvalid, name.file(), s.root, one.Group, one.Digest()), one.Close())
	}
	return one, nil
}

// read maps a file.
func (s *Store) read(ctx context.Context, name string) (*segment.Segment, error) {
	file, err := s.open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading the segment %s in %s: %w", name, s.root, err)
	}
	one, err := segment.Map(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading the segment %s in %s: %w", name, s.root, err)
	}
	return one, nil
}

// open opens a file of a folder, or an unnamed copy of an object.
func (s *Store) open(ctx context.Context, name string) (*os.File, error) {
	object, err := s.place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if file, ok := object.(*os.File); ok {
		return file, nil
	}
	defer object.Close()
	file, err := os.CreateTemp("", "pairstream-*"+suffix)
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	if err == nil {
		_, err = io.Copy(file, object)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copying to the folder for temporary files (TMPDIR): %w", err), file.Close())
	}
	return file, nil
}
