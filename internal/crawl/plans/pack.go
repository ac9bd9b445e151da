package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
)

// Pack writes the images and captions of Parquet files into tars of a folder, one for each file, because mini-batches
// refer to images by tar and offset. The key of an image is the number of its row, counted through all files in order,
// as nine digits: its index in the data set. An existing tar is complete, and stays. A row without an image or a
// caption becomes a problem that producers report. Files without the columns are refused before anything is written.
func Pack(ctx context.Context, files []string, dir string, of table.PictureColumns) error {
	for _, path := range files {
		if err := check(ctx, path, of); err != nil {
			return fmt.Errorf("taking the images out of %s: %w", path, err)
		}
	}
	row := 0
	for i, path := range files {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		tar := filepath.Join(dir, fmt.Sprintf("%05d.tar", i))
		rows, err := packFile(ctx, path, tar, of, row)
		if err != nil {
			return fmt.Errorf("taking the images out of %s: %w", path, err)
		}
		row += rows
	}
	return nil
}

// check refuses a file without the columns.
func check(ctx context.Context, path string, of table.PictureColumns) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return table.CheckPictures(ctx, f, info.Size(), of)
}

// packFile writes one tar, unless it exists, and returns the number of rows.
func packFile(ctx context.Context, path, tar string, of table.PictureColumns, first int) (rows int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	_, err = os.Stat(tar)
	if err == nil {
		return rows, table.Pictures(ctx, f, info.Size(), of, func(table.Picture) error { rows++; return nil })
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return rows, atomicfile.Write(tar, 0o644, func(to io.Writer) error {
		w := shard.NewWriter(to)
		err := table.Pictures(ctx, f, info.Size(), of, func(p table.Picture) error {
			err := packRow(w, first+rows, p)
			rows++
			return err
		})
		return errors.Join(err, w.Close())
	})
}

func packRow(w *shard.Writer, row int, p table.Picture) error {
	var files []shard.File
	if p.Encoded != nil {
		ending := strings.TrimPrefix(http.DetectContentType(p.Encoded), "image/")
		if ending != "png" && ending != "webp" {
			ending = "jpg" // its decoder checks the format
		}
		files = append(files, shard.File{Ext: ending, Data: p.Encoded})
	}
	switch len(p.Captions) {
	case 0:
	case 1:
		files = append(files, shard.File{Ext: "txt", Data: []byte(p.Captions[0])})
	default:
		listed, err := json.Marshal(map[string][]string{"captions": p.Captions})
		if err != nil {
			return err
		}
		files = append(files, shard.File{Ext: "json", Data: listed})
	}
	_, err := w.Write(fmt.Sprintf("%09d", row), files...)
	return err
}
