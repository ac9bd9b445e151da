// Package plans writes mini-batches into Parquet files, for training loops that read no log.
//
// Scored mini-batches of a lane come in, in the order of the log. It writes files named epoch-EEE-lane-LLLL.parquet,
// with a row for every sample, and a manifest with their digests. The same mini-batches give the same bytes.
//
// A [Writer] belongs to one goroutine.
package plans

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/schemas"
)

// Version is the version of the columns. Within a version columns are only added.
const Version = 1

// Row is a sample of a mini-batch. Its fields are the columns.
type Row struct {
	Group    int64  `parquet:"group"`    // of the lane
	Batch    int32  `parquet:"batch"`    // of the group's epoch
	Sample   int32  `parquet:"sample"`   // of the mini-batch
	Position int32  `parquet:"position"` // of the pair in its group
	Pair     string `parquet:"pair,dict"`
	Image    string `parquet:"image,dict"` // id
	Key      string `parquet:"key"`        // of the sample in its tar
	URI      string `parquet:"uri,dict"`   // the tar
	Offset   int64  `parquet:"offset"`     // of the image in the tar
	Size     int64  `parquet:"size"`
	Copy     string `parquet:"copy,dict"` // hash of the bytes if they are a smaller copy's; empty: they are the image's own
	Text     string `parquet:"text"`      // to train on
	Replaced bool   `parquet:"replaced"`  // the text is made of the objects of the image (GPN-S)
	Masked   bool   `parquet:"masked"`    // the image is no longer usable

	PositiveURI    string `parquet:"positive_uri,dict"` // an image that shows the same; empty: the image itself
	PositiveOffset int64  `parquet:"positive_offset"`
	PositiveSize   int64  `parquet:"positive_size"`
	PositiveCopy   string `parquet:"positive_copy,dict"`
	PositiveImage  string `parquet:"positive_image,dict"` // id

	Partners []int32   `parquet:"partners,list"` // samples of the mini-batch with the same image
	I2T      []int32   `parquet:"i2t,list"`      // samples with the hardest texts for the image, hardest first
	ProbI2T  []float32 `parquet:"prob_i2t,list"` // that the text describes the image
	T2I      []int32   `parquet:"t2i,list"`      // samples with the hardest images for the text
	ProbT2I  []float32 `parquet:"prob_t2i,list"`
	High     float32   `parquet:"high"` // a candidate whose probability is above it is a connection
}

// Place is the position of an image.
type Place struct {
	URI    string
	Offset int64
}

// Keys returns the key of an image, or "" if unknown.
type Keys func(Place) string

// File is a finished file.
type File struct {
	Name    string `json:"name"`
	Epoch   int32  `json:"epoch"`
	Lane    int32  `json:"lane"`
	Batches int    `json:"batches"`
	Samples int64  `json:"samples"`
	Scores  int64  `json:"scores"`      // of candidates, in both directions
	High    int64  `json:"connections"` // of these: connections
	SHA256  string `json:"sha256"`
}

// batchesPerGroup is the number of mini-batches in a group of rows.
const batchesPerGroup = 32

// Writer writes the files of one lane.
type Writer struct {
	dir  string
	lane int32
	high float32
	keys Keys
	open map[int32]*file // by epoch
}

type file struct {
	File
	f   *os.File
	sum func() []byte
	w   *parquet.GenericWriter[Row]
}

// partial is the suffix of an incomplete file's name.
const partial = ".partial"

// NewWriter returns the writer of a lane. A candidate is a connection if its probability is above high.
func NewWriter(dir string, lane int, high float64, keys Keys) *Writer {
	return &Writer{dir: dir, lane: int32(lane), high: float32(high), keys: keys, open: map[int32]*file{}}
}

// Name returns the name of a file.
func Name(epoch, lane int32) string { return fmt.Sprintf("epoch-%03d-lane-%04d.parquet", epoch, lane) }

// Add writes the next mini-batch of the lane.
func (w *Writer) Add(b *schemas.ScoredBatch) error {
	rows := make([]Row, len(b.Samples))
	m, high := int(b.M), w.high
	if b.High > 0 {
		high = float32(b.High)
	}
	for i, s := range b.Samples {
		rows[i] = Row{
			Group: b.Group.Seq, Batch: b.Sequence, Sample: int32(i), Position: s.Position, Pair: s.ID.String(), Image: s.ImageID.String(),
			Key: w.keys(Place{s.Image.URI, s.Image.Offset}), URI: s.Image.URI, Offset: s.Image.Offset, Size: s.Image.Size,
			Copy: hashOf(s.Image), High: high, Text: s.Text, Replaced: s.Replaced, Partners: s.Partners,
			I2T: b.I2T[i*m : (i+1)*m], T2I: b.T2I[i*m : (i+1)*m], ProbI2T: b.ProbI2T[i*m : (i+1)*m], ProbT2I: b.ProbT2I[i*m : (i+1)*m],
		}
		if p := s.Positive; p != nil {
			rows[i].PositiveURI, rows[i].PositiveOffset, rows[i].PositiveSize = p.Image.URI, p.Image.Offset, p.Image.Size
			rows[i].PositiveCopy, rows[i].PositiveImage = hashOf(p.Image), p.ImageID.String()
		}
	}
	for _, mask := range b.Masked {
		if mask.Positive { // the sample's own image replaces it
			r := &rows[mask.Sample]
			r.PositiveURI, r.PositiveOffset, r.PositiveSize, r.PositiveCopy, r.PositiveImage = "", 0, 0, "", ""
			continue
		}
		rows[mask.Sample].Masked = true
	}
	return w.write(b.Epoch, rows)
}

// write writes the rows of a mini-batch.
func (w *Writer) write(epoch int32, rows []Row) error {
	f, err := w.of(epoch)
	if err != nil {
		return err
	}
	if _, err := f.w.Write(rows); err != nil {
		return fmt.Errorf("writing %s: %w", f.Name, err)
	}
	f.Batches++
	f.Samples += int64(len(rows))
	for i := range rows {
		f.count(rows[i].I2T, rows[i].ProbI2T, rows[i].High)
		f.count(rows[i].T2I, rows[i].ProbT2I, rows[i].High)
	}
	if f.Batches%batchesPerGroup > 0 {
		return nil
	}
	return f.w.Flush()
}

// hashOf returns the hash of a copy's bytes, or "".
func hashOf(r schemas.ImageRef) string {
	if r.Copy.IsZero() {
		return ""
	}
	return r.Copy.String()
}

// count counts candidates and connections.
func (f *file) count(list []int32, probs []float32, high float32) {
	for i, p := range probs {
		if list[i] < 0 {
			continue
		}
		f.Scores++
		if p > high {
			f.High++
		}
	}
}

// of returns the file of an epoch.
func (w *Writer) of(epoch int32) (*file, error) {
	if f := w.open[epoch]; f != nil {
		return f, nil
	}
	name := Name(epoch, w.lane)
	f, err := os.Create(filepath.Join(w.dir, name+partial))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	file := &file{File: File{Name: name, Epoch: epoch, Lane: w.lane}, f: f, sum: func() []byte { return h.Sum(nil) }}
	file.w = parquet.NewGenericWriter[Row](io.MultiWriter(f, h), parquet.Compression(&parquet.Snappy), parquet.CreatedBy("pairstream", strconv.Itoa(Version), ""))
	w.open[epoch] = file
	return file, nil
}

// Close completes the files, and renames them.
func (w *Writer) Close() (files []File, err error) {
	for _, epoch := range slices.Sorted(maps.Keys(w.open)) {
		f := w.open[epoch]
		if err := errors.Join(f.w.Close(), f.f.Sync(), f.f.Close()); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.Name, err)
		}
		if err := os.Rename(f.f.Name(), filepath.Join(w.dir, f.Name)); err != nil {
			return nil, err
		}
		f.SHA256 = hex.EncodeToString(f.sum())
		files = append(files, f.File)
	}
	return files, nil
}

// Discard removes incomplete files.
func (w *Writer) Discard() error {
	var problems error
	for _, f := range w.open {
		_ = f.f.Close() // it is removed
		if err := os.Remove(f.f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = errors.Join(problems, err)
		}
	}
	return problems
}
