package bootstrap

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Walk orders pairs so that cuts of a mini-batch's size hold similar ones, as GRIT does. Row i of v and of t are the
// features of pair i, dim values each; images[i] numbers its image. The order has whole mini-batches; it may leave a
// rest out.
type Walk func(ctx context.Context, v, t []float32, dim int, images []int32, batch, round int) ([]int32, error)

// encodedAtOnce is the number of pairs whose features are computed together.
const encodedAtOnce = 64

// walk orders the open stretch of the hard phase. It draws as many pairs as the stretch learns from, and walks them by
// the features of the weights as they are.
func (s *stretches) walk(ctx context.Context) error {
	batch := s.fitting.loop.Batch
	drawn := rng.New(s.seed, "hard pairs", int64(s.course.Round)).Perm(s.examples.Len())[:int(s.course.To-s.course.From)*batch]
	var v, t []float32
	images := make([]int32, len(drawn))
	for i, pair := range drawn {
		_, image, _ := s.examples.Pair(pair)
		images[i] = int32(image)
	}
	err := s.trainer.Look(func(m *model.Model) (err error) {
		v, t, err = features(ctx, m, s.examples, drawn)
		return err
	})
	if err != nil {
		return fmt.Errorf("encoding pairs for hard mini-batches: %w", err)
	}
	places, err := s.converging.Walk(ctx, v, t, len(v)/len(drawn), numbered(images), batch, s.course.Round)
	if err != nil {
		return fmt.Errorf("ordering pairs for hard mini-batches: %w", err)
	}
	if len(places) < len(drawn) {
		return fmt.Errorf("ordering pairs for hard mini-batches: %d of %d are left", len(places), len(drawn))
	}
	s.course.Order = make([]int, len(places))
	for i, place := range places {
		s.course.Order[i] = drawn[place]
	}
	return nil
}

// numbered numbers images from 0, in the order in which they come.
func numbered(images []int32) []int32 {
	numbers := make(map[int32]int32, len(images))
	out := make([]int32, len(images))
	for i, image := range images {
		number, known := numbers[image]
		if !known {
			number = int32(len(numbers))
			numbers[image] = number
		}
		out[i] = number
	}
	return out
}

// features returns the features of pairs, without augmentation.
func features(ctx context.Context, m *model.Model, data *dataset.Training, pairs []int) (v, t []float32, err error) {
	plain := *data
	plain.Augment = dataset.Augmentation{MinScale: 1, Workers: data.Augment.Workers}
	size := 3 * m.Config.ImageSize * m.Config.ImageSize
	words, err := m.Words()
	if err != nil {
		return nil, nil, err
	}
	pixels := make([]float32, encodedAtOnce*size)
	for from := 0; from < len(pairs); from += encodedAtOnce {
		block := pairs[from:min(from+encodedAtOnce, len(pairs))]
		ids := make([][]int32, len(block))
		var loading errgroup.Group
		loading.SetLimit(plain.Augment.Readers())
		for i, pair := range block {
			loading.Go(func() (err error) {
				ids[i], err = plain.Load(pair, pixels[i*size:(i+1)*size], rng.New(0, "no augmentation"))
				return err
			})
		}
		if err := loading.Wait(); err != nil {
			return nil, nil, err
		}
		err := m.Worker().Do(ctx, func(s *torch.Scope) error {
			padded, mask, err := model.Texts(s, ids, words.PadID, m.Config)
			if err != nil {
				return err
			}
			input, err := model.Images(s, pixels[:len(block)*size], len(block), m)
			if err != nil {
				return err
			}
			s.NoGrad(func() {
				v = append(v, m.ImageFeature(s, m.Image(s, input)).Float32s()...)
				t = append(t, m.TextFeature(s, m.Text(s, padded, mask)).Float32s()...)
			})
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return v, t, nil
}
