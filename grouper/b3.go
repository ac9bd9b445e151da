package grouper

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// b3 is the strategy of [B3].
type b3 struct{}

func (b3) validate(o Options, l *invalid.List) {
	const space, strategy = invalid.Field("SearchSpace"), invalid.Field("Strategy")
	rule, batch := b3Rule(o), max(o.BatchSize, 1)
	l.Want(rule.Skip >= 1, "%s is %s:%d, want 1 or more ranks to leave out", strategy, StrategyB3, rule.Skip)
	l.Want(o.SearchSpace > rule.Skip && o.SearchSpace%batch == 0,
		"%s (M) is %d, want more than the %d ranks that %s leaves out, and a multiple of %s, %d",
		space, o.SearchSpace, rule.Skip, strategy, invalid.Field("BatchSize"), batch)
}

func (b3) reads(Options, int) reads { return readsEncoder }

func (b3) plan(ctx context.Context, in planInput) (Plan, error) {
	return B3(ctx, in.features, in.cluster, in.image, b3Rule(in.options), in.key)
}

func b3Rule(o Options) B3Rule {
	return B3Rule{o.BatchSize, o.SearchSpace, cmp.Or(o.Skip, defaultSkip), o.Workers}
}

// Numbers of the authors' released training data.
const (
	defaultSkip   = 30  // p of CIRR and ImageNet-1K; A-OKVQA, ChartQA and DocVQA have 70
	b3Ranks       = 100 // m
	mostCommunity = 32  // K
)

// B3Rule says how B3 forms the mini-batches of an epoch.
type B3Rule struct {
	BatchSize   int // |B|
	SearchSpace int // pairs among which ranks are counted, a multiple of BatchSize
	Skip        int // p: ranks that are left out, as their pairs may be false negatives
	Workers     int
}

// communitySizes returns the sizes of the communities of a mini-batch: as few as have at most 32 pairs, and as equal as
// they can be.
func (r B3Rule) communitySizes() []int {
	sizes := make([]int, (r.BatchSize+mostCommunity-1)/mostCommunity)
	for k := range sizes {
		sizes[k] = r.BatchSize*(k+1)/len(sizes) - r.BatchSize*k/len(sizes)
	}
	return sizes
}

// B3 plans an epoch by batch mining on a teacher's rankings (Thirukovalluru et al. 2025, arXiv 2505.11293, figure 1).
// The teacher is the encoder. cluster[p] and image[p] number the cluster and the image of pair p, from 0.
//
//  1. All pairs, in random order within each cluster, cluster after cluster, are cut into search spaces.
//  2. In its space, each image ranks the texts of the pairs with other images by similarity. The first p ranks are left
//     out. The pairs of the next 100 become neighbours of the image's pair in an undirected graph. Two pairs that rank
//     each other have an edge of weight 2.
//  3. Each space is split into communities of at most 32 pairs: see [growCommunities].
//  4. A mini-batch is communities drawn from the whole epoch, each once.
//
// The paper ranks all pairs and splits the graph by METIS. The search spaces bound the work, n * M products, and
// [growCommunities] takes the place of METIS. The pairs that fill no mini-batch form a short last one. The rule of
// [Random] about images applies to all mini-batches.
func B3(ctx context.Context, features Features, cluster, image []int32, rule B3Rule, key Key) (Plan, error) {
	order := permutation(len(cluster), key.generator("b3 order"))
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(cluster[a], cluster[b]) })
	spaces := slices.Collect(slices.Chunk(order, rule.SearchSpace))
	split, left := make([][][]int32, len(spaces)), make([][]int32, len(spaces)) // all but the last leave nothing
	splits, ctx := errgroup.WithContext(ctx)
	splits.SetLimit(max(1, rule.Workers))
	for k, space := range spaces {
		splits.Go(func() (err error) {
			if split[k], left[k], err = splitSpace(ctx, features, image, space, rule); err != nil {
				return fmt.Errorf("splitting search space %d of %d: %w", k, len(spaces), err)
			}
			return nil
		})
	}
	if err := splits.Wait(); err != nil {
		return Plan{}, err
	}
	mixed := mixCommunities(slices.Concat(split...), len(rule.communitySizes()), key)
	plan := Plan{append(mixed, slices.Concat(left...)...), rule.BatchSize}
	separate(plan.Order, image, rule.BatchSize, func(int) bool { return true })
	return plan, nil
}

// mixCommunities draws one community of each size for each mini-batch. The sizes come in turns.
func mixCommunities(communities [][]int32, ofBatch int, key Key) []int32 {
	full := len(communities) / ofBatch
	mixed := make([][]int32, full*ofBatch)
	for k := range ofBatch {
		for b, from := range permutation(full, key.generator("b3 communities", int64(k))) {
			mixed[b*ofBatch+k] = communities[int(from)*ofBatch+k]
		}
	}
	return slices.Concat(mixed...)
}

// splitSpace returns the communities of the full mini-batches of a search space, and the pairs that are left.
func splitSpace(ctx context.Context, features Features, image, space []int32, rule B3Rule) (communities [][]int32, left []int32, err error) {
	images := make([]int32, len(space))
	for i, p := range space {
		images[i] = image[p]
	}
	v, t := read(features, space)
	graph, err := rankGraph(ctx, v, t, images, rule.Skip, b3Ranks)
	if err != nil {
		return nil, nil, err
	}
	communities, left = growCommunities(graph, images, slices.Repeat(rule.communitySizes(), len(space)/rule.BatchSize))
	for _, part := range append(communities, left) {
		for k, i := range part {
			part[k] = space[i]
		}
	}
	return communities, left, nil
}

// growCommunities splits a graph into communities of given sizes, one after another, and the pairs that are left. It is
// greedy graph growing (Karypis and Kumar 1998, for two parts): a community begins with the first pair that is in none.
// It takes the pair with the greatest weight of edges into it, the first among equals, until it is full. Without such a
// pair it takes the first that is in none. A pair whose image the community has is taken only when nothing else is left.
func growCommunities(g neighbours, image []int32, sizes []int) (communities [][]int32, left []int32) {
	grower := grower{
		neighbours: g, image: image, placed: make([]bool, len(image)), weight: make([]int32, len(image)),
		shown: make(map[int32]bool),
	}
	for _, size := range sizes {
		communities = append(communities, grower.grow(size))
	}
	for i, placed := range grower.placed {
		if !placed {
			left = append(left, int32(i))
		}
	}
	return communities, left
}

// grower knows the community that grows.
type grower struct {
	neighbours
	image    []int32
	placed   []bool
	weight   []int32        // of the edges into the community
	frontier []int32        // pairs that have such edges
	shown    map[int32]bool // images of the community
	first    int32          // no pair before it is unplaced
}

func (g *grower) grow(size int) []int32 {
	community := make([]int32, 0, size)
	for len(community) < size {
		i := g.next()
		community = append(community, i)
		g.placed[i], g.shown[g.image[i]] = true, true
		for _, j := range g.of(i) {
			if g.weight[j] == 0 {
				g.frontier = append(g.frontier, j)
			}
			g.weight[j]++
		}
	}
	for _, j := range g.frontier {
		g.weight[j] = 0
	}
	g.frontier = g.frontier[:0]
	clear(g.shown)
	return community
}

// next returns the pair that the community takes next.
func (g *grower) next() int32 {
	best := int32(-1)
	for _, j := range g.frontier {
		better := best < 0 || g.weight[j] > g.weight[best] || g.weight[j] == g.weight[best] && j < best
		if better && !g.placed[j] && !g.shown[g.image[j]] {
			best = j
		}
	}
	if best >= 0 {
		return best
	}
	for g.placed[g.first] {
		g.first++
	}
	for j := g.first; int(j) < len(g.placed); j++ {
		if !g.placed[j] && !g.shown[g.image[j]] {
			return j
		}
	}
	return g.first
}
