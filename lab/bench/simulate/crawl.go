package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// crawl is what the indexer has left in the log: one group in every lane.
type crawl struct {
	Lanes, Pairs, Dim int
	Positives         bool // every pair has an equivalent image
}

// publish writes the embeddings, neighbours and groups of all lanes, and the end of each.
func (c crawl) publish(ctx context.Context, log *stream.Log) error {
	p := log.NewPublisher(stream.PublisherOptions{})
	for lane := range c.Lanes {
		err := c.lane(lane, func(t schemas.Topic, seq int, r schemas.Record) error {
			return p.PublishSeq(ctx, t, lane, int64(seq), stream.Mark{}, r)
		})
		if err != nil {
			return fmt.Errorf("writing the group of lane %d: %w", lane, err)
		}
	}
	return p.Close(ctx)
}

// put takes a record of a topic.
type put func(t schemas.Topic, seq int, r schemas.Record) error

// lane makes the records of one lane.
func (c crawl) lane(lane int, to put) error {
	g := &schemas.Group{
		Group: schemas.GroupID{Lane: int32(lane)}, EndSeq: int64(c.Pairs), Count: int32(c.Pairs), Dim: int32(c.Dim), Clusters: 10,
		MinSimilarity: 1, MaxSimilarity: -1, Nouns: []string{"dog"}, Model: "simulated", Closed: schemas.ClosedBySeal, K: 1, K1: 1, K2: 500, P: 0.3,
		Modality: schemas.ModalityImage, Final: true,
	}
	digest := sha256.New()
	var chunk *schemas.NeighborChunk
	flush := func() error {
		raw, err := schemas.Marshal(chunk)
		if err != nil {
			return err
		}
		digest.Write(raw)
		g.Chunks++
		return to(schemas.Neighbors, int(g.Chunks)-1, chunk)
	}
	for i := range c.Pairs {
		if i%schemas.ChunkMembers == 0 {
			if i > 0 {
				if err := flush(); err != nil {
					return err
				}
			}
			chunk = &schemas.NeighborChunk{Group: g.Group, Start: int32(i), K: 1, K1: 1}
		}
		e := c.embedding(lane, i)
		g.MinSimilarity, g.MaxSimilarity = min(g.MinSimilarity, e.Similarity), max(g.MaxSimilarity, e.Similarity)
		if err := to(schemas.Embeddings, i, e); err != nil {
			return err
		}
		se := int32(-1)
		if c.Positives {
			se = int32((i + 1) % c.Pairs)
		}
		chunk.IDs = append(chunk.IDs, e.ID[:]...)
		chunk.V2T, chunk.SE = append(chunk.V2T, int32(i)), append(chunk.SE, se)
		chunk.Cluster, chunk.ObjEnd = append(chunk.Cluster, int32(i%10)), append(chunk.ObjEnd, 0)
	}
	if err := flush(); err != nil {
		return err
	}
	g.Digest = digest.Sum(nil)
	if err := to(schemas.Groups, 0, g); err != nil {
		return err
	}
	return to(schemas.Groups, 1, &schemas.Seal{Final: true})
}

// embedding makes a pair whose caption and address are as long as those of a crawl.
func (c crawl) embedding(lane, i int) *schemas.Embedding {
	e := &schemas.Embedding{
		ImageID: schemas.NewImageID(fmt.Appendf(nil, "image %d of lane %d", i, lane)),
		Caption: fmt.Sprintf("a caption of about sixty bytes, as on the web, number %08d", i),
		Image:   schemas.ImageRef{URI: fmt.Sprintf("s3://crawl-images/2026/shard-%06d.tar", lane*1000+i/1000), Offset: int64(44_000 * (i % 1000)), Size: 44_000},
		V:       c.unit(lane, i, 0), T: c.unit(lane, i, 1), Model: "simulated",
	}
	e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	v, t := e.V.Floats(), e.T.Floats()
	for k := range v {
		e.Similarity += v[k] * t[k]
	}
	return e
}

// unit draws a unit vector.
func (c crawl) unit(numbers ...int) schemas.Float16s {
	key := make([]int64, len(numbers))
	for i, n := range numbers {
		key[i] = int64(n)
	}
	r, row, norm := rng.New(1, "simulated vector", key...), make([]float32, c.Dim), 0.0
	for k := range row {
		row[k] = float32(r.NormFloat64())
		norm += float64(row[k]) * float64(row[k])
	}
	for k := range row {
		row[k] /= float32(math.Sqrt(norm))
	}
	return schemas.NewFloat16s(row)
}

// vectors returns v and t of a training model, by position: the same in all lanes and epochs.
func (c crawl) vectors() (made [2][]schemas.Float16s) {
	for i := range c.Pairs {
		made[0] = append(made[0], c.unit(0, i, 0))
		made[1] = append(made[1], c.unit(0, i, 1))
	}
	return made
}

// features returns what a step publishes of a batch.
func (c crawl) features(b *schemas.Batch, made [2][]schemas.Float16s, step int64) *schemas.FeatureBlock {
	f := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: int32(c.Dim), Step: step}
	for _, s := range b.Samples {
		f.Positions = append(f.Positions, s.Position)
		f.V = append(f.V, made[0][s.Position]...)
		f.T = append(f.T, made[1][s.Position]...)
	}
	return f
}
