package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// data is a set of generated scenes: pairs to train on, pairs held out, and what every picture shows.
type data struct {
	train, held *dataset.Corpus
	pairs       []*schemas.Pair // of train, in the order of the tars
	shows       map[schemas.ImageID]scenes.Scene
	says        map[string]scenes.Statement                      // by caption; what is not of the grammar says nothing
	fits        func(image schemas.ImageID, caption string) bool // of photographs; nil: by shows
	dir         string                                           // removed by close, if named
	images      *shard.Images
	closeImages func() error
	vocab       []string
}

// generate makes scenes in a folder and reads them back.
func generate(ctx context.Context, dir string, o scenes.Options, heldOut int) (*data, error) {
	if err := scenes.WriteDir(ctx, dir, o, nil); err != nil {
		return nil, err
	}
	d := &data{shows: map[schemas.ImageID]scenes.Scene{}, says: map[string]scenes.Statement{}}
	paths := []string{dir}
	var err error
	if d.train, d.held, err = dataset.Read(ctx, paths, heldOut); err != nil {
		return nil, err
	}
	held := map[schemas.ImageID]bool{}
	for i := range d.held.Pairs() {
		_, _, id := d.held.Pair(i)
		held[id] = true
	}
	_, err = shard.Scan(ctx, paths, shard.Visitor{
		Example: func(ex shard.Example) error {
			r, err := scenes.ReadRecord(ex.Meta)
			d.shows[ex.ImageID] = r.Scene
			for _, l := range r.Labels {
				if l.Statement != nil {
					d.says[l.Caption] = *l.Statement
				}
			}
			if !held[ex.ImageID] {
				d.pairs = append(d.pairs, shard.Pairs(ex)...)
			}
			return err
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading generated scenes: %s", p) },
	})
	if err != nil {
		return nil, err
	}
	d.vocab = token.BuildVocab(d.train.Captions, 2000, 1)
	d.images, d.closeImages, err = bootstrap.Images(ctx, paths, o.Side, 1<<30)
	return d, err
}

// close closes the images and removes the folder.
func (d *data) close() error { return errors.Join(d.closeImages(), os.RemoveAll(d.dir)) }

// matches reports whether a caption is true of a picture, whoever wrote it.
func (d *data) matches(image schemas.ImageID, caption string) bool {
	if d.fits != nil {
		return d.fits(image, caption)
	}
	return scenes.Matches(d.shows[image], caption)
}
