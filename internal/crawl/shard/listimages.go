package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/schemas"
)

// listImages finds and reads the images of a list.
type listImages struct {
	root   *os.Root
	folder string
	strip  int // elements of the last path that were left out
}

// probed is the number of images at the start of a list of which at least one must exist.
const probed = 256

// errNoPictures means that the folder of a list holds none of its images.
var errNoPictures = errors.New("holds none of the images")

// check refuses a list if none of its first images exists.
func (p *listImages) check(ctx context.Context, l *list) error {
	tried, first := 0, ""
	done := errors.New("done")
	err := l.chosen(ctx, func(_ int64, e Entry) error {
		if _, _, err := p.find(e.Image); err == nil || tried == probed {
			return done
		}
		if first == "" {
			first = e.Image
		}
		tried++
		return nil
	})
	if errors.Is(err, done) && tried < probed {
		return nil
	}
	if err != nil && !errors.Is(err, done) {
		return err
	}
	return fmt.Errorf("folder %s %w that %s names, such as %q: name their folder, %s?images=FOLDER", p.folder, errNoPictures, l.file, first, l.file)
}

// find returns the name of an image below the folder. Lists name images from other folders, such as those of their
// authors' machines: the longest end of a path that names a file counts.
func (p *listImages) find(image string) (name string, size int64, err error) {
	image = strings.ReplaceAll(image, `\`, "/")
	if slices.Contains(strings.Split(image, "/"), "..") {
		return "", 0, errParent
	}
	parts := strings.Split(strings.TrimPrefix(path.Clean("/"+image), "/"), "/")
	try := []int{min(p.strip, len(parts)-1)}
	for i := range parts {
		try = append(try, i)
	}
	for _, strip := range try {
		name = path.Join(parts[strip:]...)
		info, failed := p.root.Stat(filepath.FromSlash(name))
		switch {
		case failed == nil && info.Mode().IsRegular():
			if uri := FileURI(filepath.Join(p.folder, filepath.FromSlash(name))); len(uri) > schemas.MaxURIBytes {
				return "", 0, fmt.Errorf("the reference would have %d bytes, at most %d are allowed", len(uri), schemas.MaxURIBytes)
			}
			p.strip = strip
			return name, info.Size(), nil
		case failed != nil && !errors.Is(failed, fs.ErrNotExist) && err == nil:
			err = failed
		}
	}
	if err == nil {
		err = fmt.Errorf("%w below %s", fs.ErrNotExist, p.folder)
	}
	return "", 0, err
}

// errParent is the error of a path that leads out of its folder.
var errParent = errors.New(`the name has ".."`)

// read reads an image into buf's memory.
func (p *listImages) read(name string, size int64, buf []byte) ([]byte, error) {
	f, err := p.root.Open(filepath.FromSlash(name))
	if err != nil {
		return buf[:0], err
	}
	defer f.Close()
	buf = slices.Grow(buf[:0], int(size))[:size]
	_, err = io.ReadFull(f, buf)
	return buf, err
}
