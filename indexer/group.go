package indexer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// compute makes the records of a group, and returns the members that are left: those of g, or of a copy without what
// resembles others.
func (b *Builder) compute(ctx context.Context, g *openGroup, why Reason, asked []*segment.Segment) (group *Group, left *openGroup, err error) {
	clusters, err := b.cluster(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	far, err := b.look(ctx, g, asked)
	if err != nil {
		return nil, nil, err
	}
	found, err := b.nearDuplicates(ctx, g, clusters.Assign, far)
	if err != nil {
		return nil, nil, err
	}
	left, assign := g, clusters.Assign
	if b.o.NearImage == DropImages && len(found.nearDuplicates) > 0 {
		if left, assign, err = g.without(&found, assign); err != nil {
			return nil, nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, left.release())
			}
		}()
	}
	far.leave(&found)
	if group, err = b.records(ctx, left, assign, &found, far); err != nil {
		return nil, left, err
	}
	if err = segment.NewIndex(nil, asked...).Err(); err != nil { // a failed segment may have answered with zeros
		if group.Segment != nil {
			err = errors.Join(err, group.Segment.Close())
		}
		return nil, left, err
	}
	group.Manifest.Closed, group.Manifest.Scope, group.Manifest.Asked = string(why), b.o.Scope, far.ids()
	return group, left, nil
}

// records makes the records of a group's members, whose clusters are known.
func (b *Builder) records(ctx context.Context, g *openGroup, assign []int32, found *near, far *outside) (group *Group, err error) {
	n := g.v.Len()
	params := knn.Params{K: b.o.K, K1: b.o.K1, K2: b.o.K2, Threads: b.o.Threads}
	if !b.o.KeepSameImage {
		params.Owner = g.owner
	}
	lists, err := b.engine.Neighbors(ctx, g.matrix(Image, n), g.matrix(Text, n), params)
	if err != nil {
		return nil, err
	}
	group = &Group{}
	if group.Segment, err = b.segment(g, assign); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && group.Segment != nil {
			err = errors.Join(err, group.Segment.Close())
		}
	}()
	words, places := g.nouns.vocabulary(b.o.MinCount)
	counter := newObjectCounter(&g.nouns, places, len(words), b.o.P)
	var images, texts [][]segment.Hit
	if far != nil {
		if images, texts, err = far.resolve(ctx, g, group.Segment, &lists); err != nil {
			return group, err
		}
		counter.far, counter.farPlaces = far, far.places(words)
	}
	lists.V2V = nil // only SE is published
	for start := 0; start < n; start += schemas.ChunkMembers {
		end := min(start+schemas.ChunkMembers, n)
		c := b.chunk(g, start, lists, assign, counter, texts)
		if far != nil {
			far.note(c, images[start:end])
		}
		group.Chunks = append(group.Chunks, c)
	}
	found.spread(group.Chunks)
	group.Manifest = b.manifest(g, words)
	group.Manifest.Near, group.Manifest.LeftOut = int64(len(found.nearDuplicates)), found.left
	if found.left > 0 {
		group.Manifest.Clusters = slices.Max(assign) + 1
	}
	group.Manifest.Chunks = int32(len(group.Chunks))
	if b.o.Repack != "" {
		group.Image = func(i int) (schemas.ImageID, schemas.ImageRef) { return g.images.at(int(g.owner[i])), g.refs.At(i) }
	}
	return group, group.Sign()
}

// segment makes the segment that later groups ask; nil without Options.Segments.
func (b *Builder) segment(g *openGroup, assign []int32) (*segment.Segment, error) {
	if !b.o.Segments {
		return nil, nil
	}
	n := g.v.Len()
	return segment.Build(segment.Group{
		ID: g.group, Model: g.model, V: g.matrix(Image, n), T: g.matrix(Text, n), List: assign, Words: g.nouns.words,
		Pair: g.pairs.at, Image: func(i int) schemas.ImageID { return g.images.at(int(g.owner[i])) }, Ref: g.refs.At,
		NounOf: func(i int) []int32 { return g.nouns.of(int32(i)) },
	})
}

// Sign writes the digest of the chunks into the manifest. Call it again after a change to a chunk.
func (g *Group) Sign() error {
	var err error
	g.Manifest.Digest, err = digest(g.Chunks)
	return err
}

func (b *Builder) clusters(n int) int { return min(b.o.Clusters, n) }

func (b *Builder) cluster(ctx context.Context, g *openGroup) (knn.Clusters, error) {
	x := g.matrix(b.o.Modality, g.v.Len())
	draws := rng.New(b.o.Seed, "indexer.clusters", int64(g.group.Lane), g.group.Seq)
	seeds, err := knn.Seeds(ctx, b.engine, x, b.clusters(x.Rows), draws)
	if err != nil {
		return knn.Clusters{}, fmt.Errorf("choosing first centroids: %w", err)
	}
	return b.engine.KMeans(ctx, x, knn.KMeansParams{Init: seeds, Iterations: b.o.Iterations, Threads: b.o.Threads})
}

// chunk returns the part of the group that begins at position start.
// Texts are those of other groups among the nearest of each member; nil: there are none.
func (b *Builder) chunk(g *openGroup, start int, near knn.Result, assign []int32, counter *objectCounter, texts [][]segment.Hit) *schemas.NeighborChunk {
	end := min(start+schemas.ChunkMembers, g.v.Len())
	k, k1 := b.o.K, b.o.K1
	c := &schemas.NeighborChunk{
		Group: g.group, Start: int32(start),
		K: int32(k), V2T: near.V2T[start*k : end*k],
		K1: int32(k1), SE: near.SE[start*k1 : end*k1],
		Cluster: assign[start:end],
	}
	for i := start; i < end; i++ {
		id := g.pairs.at(i) // no lock: only this goroutine adds
		c.IDs = append(c.IDs, id[:]...)
		var far []segment.Hit
		if texts != nil {
			far = texts[i]
		}
		c.Obj = counter.objects(c.Obj, near.V2T[i*k:(i+1)*k-len(far)], far)
		c.ObjEnd = append(c.ObjEnd, int32(len(c.Obj)))
	}
	return c
}

func (b *Builder) manifest(g *openGroup, words []string) *schemas.Group {
	n := g.v.Len()
	return &schemas.Group{
		Group: g.group, FirstSeq: g.first, EndSeq: g.end, Count: int32(n), Duplicates: g.duplicates, Repeats: g.repeats, SameImage: g.sameImage, Dim: int32(g.dim),
		Clusters: int32(b.clusters(n)), MinSimilarity: g.low, MaxSimilarity: g.high, Nouns: words, Model: g.model,
		K: int32(b.o.K), K1: int32(b.o.K1), K2: int32(b.o.K2), P: b.o.P, MinCount: int32(b.o.MinCount),
		Modality: b.o.Modality,
	}
}

// digest returns the SHA-256 over the bytes of the chunks, in order.
func digest(chunks []*schemas.NeighborChunk) ([]byte, error) {
	h := sha256.New()
	for _, c := range chunks {
		raw, err := schemas.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("encoding the chunk at position %d: %w", c.Start, err)
		}
		h.Write(raw)
	}
	return h.Sum(nil), nil
}
