package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/lab/experiments/towers"
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
	dir         string                                           // of generateIn, and of twins
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

// generateIn does the same in a new folder below parent, which close removes.
func generateIn(ctx context.Context, parent string, o scenes.Options, heldOut int) (*data, error) {
	dir, err := os.MkdirTemp(parent, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for scenes: %w", err)
	}
	d, err := generate(ctx, filepath.Join(dir, "scenes"), o, heldOut)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d.dir = dir
	return d, nil
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

// sight is photographs as pretrained towers see them. All seeds share them.
type sight struct {
	*towers.Towers
	photographs []photograph
}

// see installs the towers, runs every photograph and every twin through the image tower once, and keeps the pictures on
// the shelf.
func (s *Shelf) see(ctx context.Context, w *torch.Worker, photos string, captions int, log func(string)) (*sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[photos] != nil {
		return s.seen[photos], nil
	}
	all, err := readPhotographs(ctx, photos, captions)
	if err != nil {
		return nil, err
	}
	if len(all) < leastPhotographs {
		return nil, fmt.Errorf("%s has %d images with %d captions or more, want at least %d", photos, len(all), captions, leastPhotographs)
	}
	out := &sight{photographs: all}
	if out.Towers, err = towers.Install(ctx, s.Dir, log); err != nil {
		return nil, err
	}
	var each []*[]byte
	h := sha256.New()
	for i := range all {
		each = append(each, &all[i].encoded)
		for j := range all[i].twins {
			each = append(each, &all[i].twins[j])
		}
		h.Write(all[i].encoded)
	}
	path := filepath.Join(s.Dir, fmt.Sprintf("pictures-%s-%s-%d.safetensors", towers.Version(), hex.EncodeToString(h.Sum(nil)[:6]), captions))
	if err := out.pictures(ctx, w, each, path, log); err != nil {
		return nil, err
	}
	if s.seen == nil {
		s.seen = map[string]*sight{}
	}
	s.seen[photos] = out
	return out, nil
}

// pictures replaces images by what the image tower sees. It keeps the pictures in a file.
func (s *sight) pictures(ctx context.Context, w *torch.Worker, each []*[]byte, path string, log func(string)) error {
	name := func(i int) string { return fmt.Sprintf("picture %06d", i) }
	f, err := safetensors.Open(path)
	if err == nil {
		for i, to := range each {
			t, known := f.Tensor(name(i))
			if !known {
				return fmt.Errorf("%s has no %s: remove it", path, name(i))
			}
			*to = t.Data
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of pictures: %w", err)
	}
	log(fmt.Sprintf("towers: looking at %d photographs and twins, which takes minutes once", len(each)))
	made, err := s.Pictures(ctx, w, len(each), func(i int) ([]byte, error) { return *each[i], nil })
	if err != nil {
		return err
	}
	tensors := make([]safetensors.NamedTensor, len(made))
	for i, png := range made {
		*each[i] = png
		tensors[i] = safetensors.NamedTensor{Name: name(i), Tensor: safetensors.Tensor{DType: "U8", Shape: []int64{int64(len(png))}, Data: png}}
	}
	return safetensors.WriteFile(path, tensors, nil)
}
