package materialize

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// tarFile is a tar that has not got its name yet.
type tarFile struct {
	line
	file *atomicfile.File
	buf  *bufio.Writer
	tar  *shard.Writer
}

// begin opens the next tar of a folder.
func (e *writing) begin(short bool) (*tarFile, error) {
	t := &tarFile{line: line{Tar: fmt.Sprintf("%07d.tar", e.part(short).Tars), Short: short}}
	file, err := atomicfile.Create(e.at(t.line), 0o644)
	if err != nil {
		return nil, err
	}
	t.file, t.buf = file, bufio.NewWriterSize(file, 1<<20)
	t.tar = shard.NewWriter(t.buf)
	return t, nil
}

// add writes a mini-batch: a full one into the open tar, a short one into a tar of its own.
func (e *writing) add(b *batch) error {
	if len(b.samples) == 0 {
		return nil // its samples were masked when the plan was made
	}
	if len(b.samples) < e.o.BatchSize {
		t, err := e.begin(true)
		if err == nil {
			err = errors.Join(t.add(b), e.commit(t))
		}
		return err
	}
	if e.open == nil {
		t, err := e.begin(false)
		if err != nil {
			return err
		}
		e.open = t
	}
	if err := e.open.add(b); err != nil || len(e.open.Batches) < e.o.PerTar {
		return err
	}
	return e.finish()
}

// finish completes the open tar.
func (e *writing) finish() error {
	t := e.open
	if e.open = nil; t == nil {
		return nil
	}
	return e.commit(t)
}

// abort removes the open tar.
func (e *writing) abort() error {
	if e.open == nil {
		return nil
	}
	return e.open.file.Abort()
}

func (t *tarFile) add(b *batch) error {
	for _, s := range b.samples {
		if _, err := t.tar.Write(s.key, s.files...); err != nil {
			return errors.Join(fmt.Errorf("writing %s: %w", t.Tar, err), t.file.Abort())
		}
	}
	t.Batches = append(t.Batches, b.number)
	t.Samples += len(b.samples)
	t.Missing = append(t.Missing, b.missing...)
	return nil
}

// commit gives a tar its name.
func (e *writing) commit(t *tarFile) error {
	err := errors.Join(t.tar.Close(), t.buf.Flush())
	if err == nil {
		t.Bytes, err = t.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", e.at(t.line), err), t.file.Abort())
	}
	if err := t.file.Commit(); err != nil {
		return err
	}
	if err := e.note(t.line); err != nil {
		return err
	}
	e.progress.Batches.Add(int64(len(t.Batches)))
	e.progress.Bytes.Add(t.Bytes)
	return nil
}
