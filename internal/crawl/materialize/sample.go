package materialize

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Source reads images; a [shard.Bucket] is one.
type Source interface {
	ReadRange(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) ([]byte, error)
}

// batch is a mini-batch with its images.
type batch struct {
	number  int // in the order of training
	samples []sample
	missing []Missing
}

// sample is an entry of a tar.
type sample struct {
	key   string
	files []shard.File
}

// described is the JSON of a sample. Indices are samples of the mini-batch, in the order of the tar.
type described struct {
	Epoch    int32  `json:"epoch"`
	Lane     int32  `json:"lane"`
	Group    int64  `json:"group"`
	Batch    int    `json:"batch"`   // number in the order of training
	Sample   int    `json:"sample"`  // of the mini-batch
	Samples  int    `json:"samples"` // that the mini-batch has
	Pair     string `json:"pair"`
	Image    string `json:"image"`
	Key      string `json:"key"` // in the source
	URI      string `json:"uri"`
	Offset   int64  `json:"offset"`
	Size     int64  `json:"size"`
	Replaced bool   `json:"replaced"`           // the text is made of the objects of the image
	Positive string `json:"positive,omitempty"` // id of the image in .positive.*, which shows the same
	Partners []int  `json:"partners"`           // samples with the same image

	I2T            []int     `json:"i2t"` // samples with the hardest texts for the image, hardest first
	ProbI2T        []float32 `json:"prob_i2t"`
	ConnectionsI2T []int     `json:"connections_i2t"` // of these: false negatives
	NegativeI2T    int       `json:"negative_i2t"`    // the hardest negative; -1: none
	T2I            []int     `json:"t2i"`             // samples with the hardest images for the text
	ProbT2I        []float32 `json:"prob_t2i"`
	ConnectionsT2I []int     `json:"connections_t2i"`
	NegativeT2I    int       `json:"negative_t2i"`
}

// picture holds the bytes of a row's image and of its positive, or why they cannot be read.
type picture struct {
	image, positive []byte
	lost, lostOther error
}

// readers is the number of samples whose images are read at once.
const readers = 16

// load reads the images of a mini-batch. It fails if none of them can be read.
func (e *writing) load(ctx context.Context, number int, planned plans.Planned) (*batch, error) {
	rows := planned.Rows
	pictures := make([]picture, len(rows))
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range rows {
		if rows[i].Masked {
			continue
		}
		g.Go(func() (err error) {
			pictures[i], err = e.read(reading, &rows[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b := &batch{number: number}
	place := make([]int, len(rows)) // of rows in the tar; -1: left out
	kept := 0
	for i, p := range pictures {
		place[i] = -1
		if p.image != nil {
			place[i] = kept
			kept++
		}
		for _, lost := range []struct {
			why      error
			positive bool
		}{{p.lost, false}, {p.lostOther, true}} {
			if lost.why != nil {
				b.missing = append(b.missing, Missing{Pair: rows[i].Pair, Positive: lost.positive, Reason: lost.why.Error()})
			}
		}
	}
	if kept == 0 && len(b.missing) > 0 {
		return nil, fmt.Errorf("no image of mini-batch %d of epoch %d can be read, the first: %s: bring the data back to where it was when the plan was made, and start again",
			number, e.epoch, b.missing[0].Reason)
	}
	for i := range rows {
		if place[i] < 0 {
			continue
		}
		s, err := e.sample(described{Lane: planned.Lane, Batch: number, Samples: kept}, &rows[i], pictures[i], place)
		if err != nil {
			return nil, err
		}
		b.samples = append(b.samples, s)
	}
	return b, nil
}

// read reads the image of a row, and that of its positive.
func (e *writing) read(ctx context.Context, r *plans.Row) (p picture, err error) {
	ref := schemas.ImageRef{URI: r.URI, Offset: r.Offset, Size: r.Size}
	if p.image, p.lost, err = readImage(ctx, e.images, ref, r.Image, r.Copy); err != nil || r.PositiveURI == "" {
		return p, err
	}
	ref = schemas.ImageRef{URI: r.PositiveURI, Offset: r.PositiveOffset, Size: r.PositiveSize}
	p.positive, p.lostOther, err = readImage(ctx, e.images, ref, r.PositiveImage, r.PositiveCopy)
	return p, err
}

// Pauses between two attempts at an image, and the time after which a fault of the source ends the run.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	patience   = time.Minute
)

// readImage returns the bytes of an image, or why it cannot be read. Other faults are tried again for a while.
func readImage(ctx context.Context, from Source, ref schemas.ImageRef, image, smaller string) (data []byte, lost, err error) {
	var id schemas.ImageID
	for _, read := range []struct {
		text string
		into *schemas.ImageID
	}{{image, &id}, {smaller, &ref.Copy}} {
		if raw, err := hex.DecodeString(read.text); err != nil || read.text != "" && len(raw) != len(read.into) {
			return nil, nil, fmt.Errorf("image id %q: want 32 hexadecimal digits", read.text)
		} else if len(raw) > 0 {
			*read.into = schemas.ImageID(raw)
		}
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		data, err := from.ReadRange(ctx, ref, id)
		switch {
		case err == nil:
			return data, nil, nil
		case errors.Is(err, shard.ErrForbidden):
			return nil, nil, fmt.Errorf("%w: BUCKET_ROOTS has to name its place", err)
		case shard.Permanent(err):
			return nil, err, nil
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case time.Since(began) > patience:
			return nil, nil, fmt.Errorf("%w: it was tried for %s; start the command again, it continues here", err, patience)
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// sample returns the entry of a row. d describes the mini-batch.
func (e *writing) sample(d described, r *plans.Row, p picture, place []int) (s sample, err error) {
	d.Epoch, d.Group, d.Sample, d.Pair, d.Image, d.Replaced = e.epoch, r.Group, place[r.Sample], r.Pair, r.Image, r.Replaced
	d.Key, d.URI, d.Offset, d.Size, d.Partners = r.Key, r.URI, r.Offset, r.Size, []int{}
	for _, other := range r.Partners {
		if other >= 0 && place[other] >= 0 {
			d.Partners = append(d.Partners, place[other])
		}
	}
	d.I2T, d.ProbI2T, d.ConnectionsI2T, d.NegativeI2T = e.candidates(r.I2T, r.ProbI2T, r.High, place)
	d.T2I, d.ProbT2I, d.ConnectionsT2I, d.NegativeT2I = e.candidates(r.T2I, r.ProbT2I, r.High, place)
	s.key = fmt.Sprintf("%03d-%07d-%04d", d.Epoch, d.Batch, d.Sample)
	s.files = []shard.File{{Ext: shard.Extension(p.image), Data: p.image}}
	if p.positive != nil {
		d.Positive = r.PositiveImage
		s.files = append(s.files, shard.File{Ext: "positive." + shard.Extension(p.positive), Data: p.positive})
	}
	raw, err := json.Marshal(d)
	s.files = append(s.files, shard.File{Ext: "txt", Data: []byte(r.Text)}, shard.File{Ext: "json", Data: raw})
	return s, err
}

// candidates returns the candidates that are in the tar, those above high, and the first one below low.
func (e *writing) candidates(list []int32, probs []float32, high float32, place []int) (found []int, of []float32, connections []int, negative int) {
	found, of, connections, negative = []int{}, []float32{}, []int{}, -1
	for i, candidate := range list {
		if candidate < 0 || place[candidate] < 0 {
			continue
		}
		at, p := place[candidate], probs[i]
		found, of = append(found, at), append(of, p)
		if p > high && !slices.Contains(connections, at) {
			connections = append(connections, at)
		}
		if p < float32(e.o.Low) && negative < 0 {
			negative = at
		}
	}
	return found, of, connections, negative
}
