package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/schemas"
)

// group is a closed group and the embeddings that it consists of.
type group struct {
	*indexer.Group
	embeddings []*schemas.Embedding
}

// group runs the pairs through the cores of the encoder and of the indexer.
func (s *setup) group(ctx context.Context, weights string) (*group, error) {
	embeddings, err := embed(ctx, s.worker, weights, s.data.images, s.data.pairs)
	if err != nil {
		return nil, err
	}
	o := indexer.DefaultOptions()
	o.Seed, o.Clusters = s.seed, 64
	return index(ctx, embeddings, o)
}

// embed runs pairs through the core of the encoder.
func embed(ctx context.Context, w *torch.Worker, weights string, images *shard.Images, pairs []*schemas.Pair) ([]*schemas.Embedding, error) {
	m, err := model.OpenEncoder(ctx, w, weights, model.EncoderOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	core, err := encoder.New(m, source{images, m.Preprocessing()}, encoder.Options{BatchSize: 32, Workers: 2})
	if err != nil {
		return nil, err
	}
	results, err := core.Encode(ctx, pairs, nil)
	if err != nil {
		return nil, err
	}
	var out []*schemas.Embedding
	for _, r := range results {
		if r.Unusable != nil {
			return nil, r.Unusable
		}
		out = append(out, r.Embedding)
	}
	return out, nil
}

// index runs embeddings through the core of the indexer, as one group.
func index(ctx context.Context, embeddings []*schemas.Embedding, o indexer.Options) (*group, error) {
	tagger, err := tagger()
	if err != nil {
		return nil, err
	}
	o.GroupSize = len(embeddings) + 1
	builder, err := indexer.NewBuilder(schemas.GroupID{}, o, cpu.Engine{}, tagger, nil)
	if err != nil {
		return nil, err
	}
	g := &group{embeddings: embeddings}
	for i, e := range embeddings {
		if _, err := builder.Add(e, int64(i)); err != nil {
			return nil, errors.Join(err, builder.Free())
		}
	}
	if g.Group, err = builder.Close(ctx, indexer.BySeal); err != nil {
		return nil, errors.Join(err, builder.Free())
	}
	return g, nil
}

// source loads the pixels of a pair for the encoder.
type source struct {
	images *shard.Images
	pre    imaging.Preprocess
}

// Load implements [encoder.Images].
func (s source) Load(ctx context.Context, p *schemas.Pair, _ encoder.Wanted, dst []byte) (encoder.Loaded, error) {
	im, err := s.images.Get(ctx, *p.Image, p.ImageID)
	if err != nil {
		return encoder.Loaded{}, err
	}
	s.pre.Bytes(dst, im)
	return encoder.Loaded{Ref: *p.Image}, nil
}

// batches runs a group through the core of the grouper. It calls use with every mini-batch of every epoch. use returns
// the features by which the next epoch is grouped, or nil where there are none.
func (g *group) batches(ctx context.Context, o grouper.Options, use func(*schemas.Batch) (*schemas.FeatureBlock, error)) error {
	lane, err := grouper.NewLane(o, 0)
	if err != nil {
		return err
	}
	var features []*schemas.FeatureBlock
	emit := func(r schemas.Record) error {
		b, ok := r.(*schemas.Batch)
		if !ok {
			return fmt.Errorf("a lane without seals emits a %s", r.Schema())
		}
		f, err := use(b)
		if f != nil {
			features = append(features, f)
		}
		return err
	}
	if err := lane.Add(ctx, grouper.Input{Record: g.Manifest}, emit); err != nil {
		return err
	}
	for i, c := range g.Chunks {
		raw, err := schemas.Marshal(c)
		if err != nil {
			return err
		}
		if err := lane.Add(ctx, grouper.Input{Record: c, Value: raw, Seq: int64(i)}, emit); err != nil {
			return err
		}
	}
	for i, e := range g.embeddings {
		if err := lane.Add(ctx, grouper.Input{Record: e, Seq: int64(i)}, emit); err != nil {
			return err
		}
	}
	for i := 0; !lane.BetweenGroups(); i++ {
		if i == len(features) {
			return fmt.Errorf("grouping: the lane wants %s after %d blocks of features", lane.Needs(), i)
		}
		if err := lane.Add(ctx, grouper.Input{Record: features[i], Seq: int64(i)}, emit); err != nil {
			return err
		}
	}
	return nil
}
