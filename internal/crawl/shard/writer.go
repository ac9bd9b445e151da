package shard

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
)

// File is one file of an example: its extension without dot, and its contents.
type File struct {
	Ext  string
	Data []byte
}

// Writer writes a WebDataset tar. The same examples give the same bytes.
type Writer struct {
	tar *tar.Writer
	out countingWriter
}

// countingWriter counts the bytes that it has written.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter writes to w, which the caller closes after [Writer.Close].
func NewWriter(w io.Writer) *Writer {
	t := &Writer{out: countingWriter{w: w}}
	t.tar = tar.NewWriter(&t.out)
	return t
}

// Write adds the files of one example and returns the offset of each one's contents in the tar.
func (w *Writer) Write(key string, files ...File) ([]int64, error) {
	offsets := make([]int64, 0, len(files))
	for _, f := range files {
		name := key + "." + f.Ext
		at, err := w.add(name, f.Data)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		offsets = append(offsets, at)
	}
	return offsets, nil
}

// add writes one entry, padding included, and returns the offset of its contents.
func (w *Writer) add(name string, data []byte) (int64, error) {
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0)}
	if err := w.tar.WriteHeader(h); err != nil {
		return 0, err
	}
	at := w.out.n
	if _, err := w.tar.Write(data); err != nil {
		return 0, err
	}
	return at, w.tar.Flush()
}

// Close writes the end marker.
func (w *Writer) Close() error { return w.tar.Close() }

// DirWriter writes examples into numbered tars of a folder: 00000.tar, 00001.tar, ... A tar appears under its name when
// it is complete.
type DirWriter struct {
	dir      string
	perShard int
	shards   int
	examples int // in the open tar
	file     *atomicfile.File
	tar      *Writer
}

// NewDirWriter creates the folder if need be; every tar but the last gets perShard examples.
func NewDirWriter(dir string, perShard int) (*DirWriter, error) {
	if perShard < 1 {
		return nil, fmt.Errorf("writing shards to %s: %d examples a shard, want at least 1", dir, perShard)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("writing shards to %s: %w", dir, err)
	}
	return &DirWriter{dir: dir, perShard: perShard}, nil
}

// Write adds the files of one example.
func (d *DirWriter) Write(key string, files ...File) error {
	if d.file == nil {
		f, err := atomicfile.Create(d.path(), 0o644)
		if err != nil {
			return fmt.Errorf("creating a shard: %w", err)
		}
		d.file, d.tar, d.examples = f, NewWriter(f), 0
	}
	if _, err := d.tar.Write(key, files...); err != nil {
		return err
	}
	if d.examples++; d.examples < d.perShard {
		return nil
	}
	return d.finish()
}

// path returns the path that the open tar gets on completion.
func (d *DirWriter) path() string { return filepath.Join(d.dir, fmt.Sprintf("%05d.tar", d.shards)) }

// finish completes the open tar and gives it its name.
func (d *DirWriter) finish() error {
	f := d.file
	d.file = nil
	err := d.tar.Close()
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("finishing shard %s: %w", d.path(), err), f.Abort())
	}
	d.shards++
	return nil
}

// Close completes the last tar.
func (d *DirWriter) Close() error {
	if d.file == nil {
		return nil
	}
	return d.finish()
}

// Abort drops the open tar; after Close it does nothing.
func (d *DirWriter) Abort() error {
	if d.file == nil {
		return nil
	}
	f := d.file
	d.file = nil
	return f.Abort()
}
