package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/atomicfile"
	"github.com/pairstream/pairstream/internal/shard"
)

// depot is the place of CHECKPOINT_UPLOAD. An object appears when it is complete.
type depot interface {
	// Sizes lists the objects, with their sizes in bytes.
	Sizes(ctx context.Context) (map[string]int64, error)
	// Open fails with [fs.ErrNotExist] where there is no such object.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	Put(ctx context.Context, name string, from *os.File) error
	Delete(ctx context.Context, name string) error
	Close() error
}

var (
	_ depot = shard.Store(nil)
	_ depot = folder("")
)

// validateUpload checks the form of CHECKPOINT_UPLOAD.
func validateUpload(place string) error {
	u, err := url.Parse(place)
	if err != nil || u.Scheme == "" || u.Scheme == "s3" || u.Scheme == "gs" {
		return nil // a path may hold anything
	}
	return fmt.Errorf("CHECKPOINT_UPLOAD is %q, want s3://bucket/prefix/, gs://bucket/prefix/ or a folder", place)
}

// openDepot opens a place. One without options takes those of the root that it lies under.
func openDepot(ctx context.Context, place string, roots []string) (depot, error) {
	if !shard.IsRemote(place) {
		return folder(place), os.MkdirAll(place, 0o755)
	}
	root, err := url.Parse(shard.WithOptions([]string{place}, roots)[0])
	if err != nil {
		return nil, err
	}
	root.Path = strings.TrimSuffix(root.Path, "/")
	return shard.OpenStore(ctx, root)
}

// folder is a depot on a disk that is mounted.
type folder string

// Sizes implements depot. A file that goes meanwhile is left out.
func (f folder) Sizes(context.Context) (map[string]int64, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64)
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sizes[e.Name()] = info.Size()
	}
	return sizes, nil
}

// Open implements depot.
func (f folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}

// Put implements depot.
func (f folder) Put(_ context.Context, name string, from *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(string(f), name), 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// Delete implements depot.
func (f folder) Delete(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(f), name))
}

// Close implements depot.
func (f folder) Close() error { return nil }
