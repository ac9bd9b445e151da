package indexer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/schemas"
)

// Near-duplicates are found as in SemDeDup (Abbas et al. 2023, section 3): among the images of a cluster, by the cosine
// of their vectors v. The images of a group are taken in the order of their first pairs. An image whose cosine with an
// image kept before it, in the same cluster, is above the threshold is a near-duplicate of the first such image. Any
// other image is kept. So no two kept images of a cluster are closer than the threshold, and every near-duplicate is
// close to an image that is kept. Near-duplicates of near-duplicates are compared with kept images alone.
//
// The paper keeps the image that is farthest from the centroid, and finds that the choice matters little. Here the
// first one stays, as with pairs and images that repeat.
//
// With Options.Scope an image may resemble images of other groups. Then it is a near-duplicate of the nearest of these,
// and is not kept (outside.go).
//
// Pairs of one image are no near-duplicates of one another; all of them share its fate. The image lies in the cluster
// of its first pair.

// near holds the near-duplicates of a group.
type near struct {
	nearDuplicates []nearDuplicate // in the order of their positions
	left           int64           // pairs that were left out
}

// nearDuplicate is a pair whose image resembles that of a member before it, or one of another group.
type nearDuplicate struct {
	at, to int32 // positions; to is -1 for an image of another group
	pair   schemas.PairID
	image  schemas.ImageID // of another group
	cosine float32
}

// nearDuplicates finds the pairs of a group whose images resemble others. A chunk has room for MaxNear of them for each
// member that is none: pairs beyond that are kept.
func (b *Builder) nearDuplicates(ctx context.Context, g *openGroup, assign []int32, far *outside) (near, error) {
	if b.o.NearImage == KeepImages {
		return near{}, nil
	}
	first := make([]int32, 0, g.images.n) // pair of every image
	for at, image := range g.owner {
		if int(image) == len(first) {
			first = append(first, int32(at))
		}
	}
	clusters := make([][]int32, b.clusters(g.v.Len()))
	for image, at := range first {
		if far == nil || far.nearDuplicates[at].Score == 0 {
			clusters[assign[at]] = append(clusters[assign[at]], int32(image))
		}
	}
	s := nearSearch{
		v: g.matrix(Image, g.v.Len()), first: first, above: float32(b.o.NearCosine),
		to: slices.Repeat([]int32{-1}, len(first)), cosine: make([]float32, len(first)),
	}
	if err := s.run(ctx, clusters, b.o.Threads); err != nil {
		return near{}, err
	}
	var out near
	for at, image := range g.owner {
		t := nearDuplicate{at: int32(at), to: -1, pair: g.pairs.at(at), cosine: s.cosine[image]}
		if to := s.to[image]; to >= 0 {
			t.to = first[to]
		} else if far != nil && far.nearDuplicates[first[image]].Score > 0 {
			t.image, t.cosine = far.nearDuplicate(first[image])
		} else {
			continue
		}
		if kept := at - len(out.nearDuplicates); len(out.nearDuplicates) < schemas.MaxNear*kept {
			out.nearDuplicates = append(out.nearDuplicates, t)
		}
	}
	return out, nil
}

// nearSearch compares the images of clusters. Clusters have no image in common.
type nearSearch struct {
	v     knn.Matrix
	first []int32 // row of every image
	above float32

	to     []int32 // for every image: the image that it resembles, or -1
	cosine []float32
}

func (s *nearSearch) run(ctx context.Context, clusters [][]int32, threads int) error {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(threads)
	for _, images := range clusters {
		if len(images) > 1 {
			workers.Go(func() error { return s.cluster(ctx, images) })
		}
	}
	return workers.Wait()
}

// nearTile is the number of images that are compared with as many others at once.
const nearTile = 128

// cluster takes the images of a cluster in their order, and compares each with those that are kept.
func (s *nearSearch) cluster(ctx context.Context, images []int32) error {
	own, other := dotproduct.NewMatrix(nearTile, s.v.Dim), dotproduct.NewMatrix(nearTile, s.v.Dim)
	products := make([]float32, nearTile*nearTile)
	var kept []int32
	for block := range slices.Chunk(images, nearTile) {
		s.load(own, block)
		for before := range slices.Chunk(kept, nearTile) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.load(other, before)
			dotproduct.Block(products, own, 0, len(block), other, 0, len(before))
			for i, image := range block {
				s.compare(image, before, products[i*len(before):])
			}
		}
		dotproduct.Block(products, own, 0, len(block), own, 0, len(block))
		for i, image := range block {
			if s.compare(image, block[:i], products[i*len(block):]); s.to[image] < 0 {
				kept = append(kept, image)
			}
		}
	}
	return nil
}

// load copies the vectors of images.
func (s *nearSearch) load(into *dotproduct.Matrix, images []int32) {
	for i, image := range images {
		s.v.Row(int(s.first[image]), into.Row(i)[:0])
	}
}

// compare looks for the first image before this one that is kept and close enough.
func (s *nearSearch) compare(image int32, before []int32, products []float32) {
	if s.to[image] >= 0 {
		return
	}
	for j, other := range before {
		if products[j] > s.above && s.to[other] < 0 {
			s.to[image], s.cosine[image] = other, min(products[j], 1)
			return
		}
	}
}

// spread distributes the near-duplicates over the chunks of the group, in order and evenly.
func (n *near) spread(chunks []*schemas.NeighborChunk) {
	for i, c := range chunks {
		for _, t := range n.nearDuplicates[i*len(n.nearDuplicates)/len(chunks) : (i+1)*len(n.nearDuplicates)/len(chunks)] {
			if t.to < 0 {
				c.OutNear = append(c.OutNear, t.pair[:]...)
				c.OutNearTo = append(c.OutNearTo, t.image[:]...)
				c.OutNearCosine = append(c.OutNearCosine, t.cosine)
				continue
			}
			c.Near = append(c.Near, t.pair[:]...)
			c.NearTo = append(c.NearTo, t.to)
			c.NearCosine = append(c.NearCosine, t.cosine)
		}
	}
}

// without returns a copy of the group without the near-duplicates, and the clusters of its members, numbered without
// gaps. It renumbers the positions that the near-duplicates refer to.
func (g *openGroup) without(found *near, assign []int32) (left *openGroup, clusters []int32, err error) {
	n := g.v.Len()
	m, err := newMembers(g.group, g.model, n-len(found.nearDuplicates), g.dim)
	if err != nil {
		return nil, nil, err
	}
	left = &openGroup{
		members: m, first: g.first, end: g.end, duplicates: g.duplicates, repeats: g.repeats, sameImage: g.sameImage,
		low: g.similarities[0], high: g.similarities[0],
	}
	moved, nearDuplicates := make([]int32, n), found.nearDuplicates
	for at := range n {
		if len(nearDuplicates) > 0 && int(nearDuplicates[0].at) == at {
			if nearDuplicates[0].to >= 0 {
				nearDuplicates[0].to = moved[nearDuplicates[0].to]
			}
			nearDuplicates = nearDuplicates[1:]
			continue
		}
		moved[at] = int32(len(clusters))
		clusters = append(clusters, assign[at])
		if err := left.copyFrom(g, at); err != nil {
			return nil, nil, errors.Join(err, left.release())
		}
	}
	found.left = int64(len(found.nearDuplicates))
	return left, dense(clusters), nil
}

// copyFrom takes a member of another group.
func (g *openGroup) copyFrom(from *openGroup, at int) error {
	g.pairs.add(from.pairs.at(at))
	if err := errors.Join(g.v.AppendFrom(from.v, at), g.t.AppendFrom(from.t, at)); err != nil {
		return fmt.Errorf("copying pair %s: %w", from.pairs.at(at), err)
	}
	if len(from.refs.Offsets) > 0 {
		g.refs.Add(from.refs.At(at))
	}
	var nouns []string
	for _, noun := range from.nouns.of(int32(at)) {
		nouns = append(nouns, from.nouns.words[noun])
	}
	g.note(from.images.at(int(from.owner[at])), nouns, from.similarities[at])
	return nil
}

// dense gives clusters the numbers 0, 1, ... in their order, without those that have no member.
func dense(clusters []int32) []int32 {
	numbers := slices.Compact(slices.Sorted(slices.Values(clusters)))
	for i, c := range clusters {
		place, _ := slices.BinarySearch(numbers, c)
		clusters[i] = int32(place)
	}
	return clusters
}
