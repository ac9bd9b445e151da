package grouper

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// Features gives the unit features of a group's pairs.
type Features interface {
	Dim() int
	// Read fills v and t, of Dim values each, for the pair at a position of the group. It is called concurrently.
	Read(position int32, v, t []float32)
}

// grit is the strategy of [GRIT].
type grit struct{}

func (grit) validate(o Options, l *invalid.List) {
	const queue, space, batchSize = invalid.Field("QueueSize"), invalid.Field("SearchSpace"), invalid.Field("BatchSize")
	batch := max(o.BatchSize, 1)
	known := slices.Contains([]Source{SourceTraining, SourceEncoder, SourceCurrent, SourceUnshuffled}, o.Features)
	l.Want(known, "%s is %q, want training, encoder, current or unshuffled", invalid.Field("Features"), o.Features)
	l.Want(o.QueueSize >= 0, "%s (L) is %d, want 0 or more", queue, o.QueueSize)
	l.Want(o.SearchSpace == 0 || o.SearchSpace > 1, "%s (M) is %d, want 0 or more than 1", space, o.SearchSpace)
	l.Want(o.SearchSpace%batch == 0, "%s (M) is %d, want a multiple of %s, %d", space, o.SearchSpace, batchSize, batch)
	if o.SearchSpace > 0 {
		l.Want(o.QueueSize%o.SearchSpace == 0, "%s (L) is %d, want a multiple of %s, %d", queue, o.QueueSize, space, o.SearchSpace)
	} else {
		l.Want(o.QueueSize%batch == 0, "%s (L) is %d, want a multiple of %s, %d", queue, o.QueueSize, batchSize, batch)
	}
}

func (grit) reads(o Options, epoch int) reads {
	if epoch == 0 || o.Features == SourceEncoder {
		return readsEncoder
	}
	return readsTraining
}

// collectsInTraining says whether GRIT collects pairs in the training order of the epoch before, as their features come.
func (o Options) collectsInTraining() bool {
	return o.Strategy == StrategyGRIT && (o.Features == SourceTraining || o.Features == SourceUnshuffled)
}

// remakesFeatures says whether the trainer makes features after an epoch, with the weights current at that time.
func (o Options) remakesFeatures() bool {
	return o.Strategy == StrategyGRIT && o.Features == SourceCurrent
}

// plan goes on from the queues that advance has grouped. Pairs come into queues in the training order of the epoch
// before, or in a random one.
func (grit) plan(ctx context.Context, in planInput) (Plan, error) {
	order := in.before.Order
	if in.key.Epoch == 0 || !in.options.collectsInTraining() {
		order = permutation(in.pairs(), in.key.generator("collecting order"))
	}
	g := in.gritPlan()
	if err := g.group(ctx, order[len(g.grouped):], in.features, in.image); err != nil {
		return Plan{}, err
	}
	return g.plan(), nil
}

// advance groups the queues whose features have all come. So only the last queue is left when training ends the epoch.
func (grit) advance(ctx context.Context, in planInput, arrived int) (any, error) {
	if !in.options.collectsInTraining() || in.options.QueueSize == 0 {
		return nil, nil
	}
	g := in.gritPlan()
	full := arrived / in.options.QueueSize * in.options.QueueSize
	if from := len(g.grouped); from < full {
		return g, g.group(ctx, in.before.Order[from:full], in.features, in.image)
	}
	return g, nil
}

// gritPlan returns the plan that advance has begun, or a new one.
func (in planInput) gritPlan() *gritPlan {
	if begun, ok := in.ahead.(*gritPlan); ok {
		return begun
	}
	o, draws := in.options, in.key.Draws()
	if o.Features == SourceUnshuffled {
		draws = unshuffled{draws}
	}
	g := newGRITPlan(in.pairs(), GRITRule{o.BatchSize, o.QueueSize, o.SearchSpace, o.StartAsReleased, o.Workers}, draws)
	g.walked = in.walked
	return g
}

// GRITRule is how GRIT-VLP forms the mini-batches of an epoch (section 4.1, Algorithm 1).
type GRITRule struct {
	BatchSize   int // N
	QueueSize   int // L, a multiple of M; 0: the whole group
	SearchSpace int // M, a multiple of N; 0: the whole queue
	// StartAsReleased draws the first pair of a walk as the released code does, which never starts with the last pair of
	// the search space; the paper (and the default) draws from all.
	StartAsReleased bool
	Workers         int
}

// GRITDraws are the random choices of GRIT. [Key.Draws] are those of production; a test plays back recorded ones.
type GRITDraws interface {
	// Examples is the example-level shuffle of a queue of n pairs: position p gets the pair from position Examples[p].
	Examples(queue, n int) []int32
	// Start is the first pair of a walk, below n.
	Start(walk, n int) int
	// Cuts is the mini-batch-level shuffle of the n full mini-batches of the epoch, in the sense of Examples.
	Cuts(n int) []int32
}

// Draws returns the random choices of GRIT for an epoch of a group.
func (k Key) Draws() GRITDraws { return keyedDraws{k} }

type keyedDraws struct{ Key }

func (k keyedDraws) Examples(queue, n int) []int32 {
	return permutation(n, k.generator("example shuffle", int64(queue)))
}

func (k keyedDraws) Start(walk, n int) int { return k.generator("walk start", int64(walk)).IntN(n) }

func (k keyedDraws) Cuts(n int) []int32 { return permutation(n, k.generator("mini-batch shuffle")) }

// unshuffled leaves queues and mini-batches in the order in which they come.
type unshuffled struct{ GRITDraws }

func (unshuffled) Examples(_, n int) []int32 { return ascending(n) }

func (unshuffled) Cuts(n int) []int32 { return ascending(n) }

func ascending(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}

// GRIT plans an epoch: pairs are collected, in the given order, into queues of L; each queue is shuffled and cut into
// search spaces of M; each of them is ordered by a [Walk]; the walks, one after another, are cut into mini-batches of
// N, and the mini-batches are shuffled over the whole epoch.
//
// The last queue holds the remaining pairs. It is shuffled and cut into search spaces like the others; its last search
// space is shorter unless M divides the remainder. (The released code fails where it does.) A last mini-batch of fewer
// than N pairs stays the last.
func GRIT(ctx context.Context, order []int32, features Features, image []int32, rule GRITRule, draws GRITDraws) (Plan, error) {
	g := newGRITPlan(len(order), rule, draws)
	if err := g.group(ctx, order, features, image); err != nil {
		return Plan{}, err
	}
	return g.plan(), nil
}

// gritPlan is a plan of GRIT whose queues are grouped as they fill.
type gritPlan struct {
	rule          GRITRule
	draws         GRITDraws
	grouped       []int32 // never reallocated: search spaces are parts of it
	queues, walks int
	walked        func(pairs int) // called after each walk, by several goroutines; may be nil
}

func newGRITPlan(pairs int, rule GRITRule, draws GRITDraws) *gritPlan {
	return &gritPlan{rule: rule, draws: draws, grouped: make([]int32, 0, pairs)}
}

// group groups the next queues of the order. All but the epoch's last are full.
func (g *gritPlan) group(ctx context.Context, order []int32, features Features, image []int32) error {
	var spaces [][]int32
	for _, queue := range queues(order, g.rule.QueueSize) {
		from := len(g.grouped)
		for _, old := range g.draws.Examples(g.queues, len(queue)) {
			g.grouped = append(g.grouped, queue[old])
		}
		g.queues++
		for _, space := range queues(g.grouped[from:], g.rule.SearchSpace) {
			spaces = append(spaces, space)
		}
	}
	starts := make([]int, len(spaces))
	for i, space := range spaces {
		n := len(space)
		if g.rule.StartAsReleased && n > 1 {
			n--
		}
		starts[i] = g.draws.Start(g.walks, n)
		g.walks++
	}
	return g.walkAll(ctx, spaces, starts, features, image)
}

// plan shuffles the mini-batches of all queues.
func (g *gritPlan) plan() Plan {
	whole := Plan{g.grouped, g.rule.BatchSize}
	shuffled := make([]int32, 0, len(g.grouped))
	full := len(g.grouped) / g.rule.BatchSize
	for _, old := range g.draws.Cuts(full) {
		shuffled = append(shuffled, whole.Batch(int(old))...)
	}
	return Plan{append(shuffled, g.grouped[full*g.rule.BatchSize:]...), g.rule.BatchSize}
}

// queues cuts pairs into numbered parts of a size, the last one shorter when there are fewer left; size 0: one part.
func queues(pairs []int32, size int) iter.Seq2[int, []int32] {
	return func(yield func(int, []int32) bool) {
		number := 0
		for part := range slices.Chunk(pairs, max(1, cmp.Or(size, len(pairs)))) {
			if !yield(number, part) {
				return
			}
			number++
		}
	}
}

// walkAll brings each search space into the order of its walk. Several walks go on at once when there are several; the
// workers that are left over help inside the walks.
func (g *gritPlan) walkAll(ctx context.Context, spaces [][]int32, starts []int, features Features, image []int32) error {
	walks, ctx := errgroup.WithContext(ctx)
	atOnce := max(1, min(g.rule.Workers, len(spaces)))
	walks.SetLimit(atOnce)
	each := WalkRule{BatchSize: g.rule.BatchSize, Workers: max(1, g.rule.Workers/atOnce)}
	for i, space := range spaces {
		walks.Go(func() error {
			if err := walkSpace(ctx, space, starts[i], features, image, each); err != nil {
				return fmt.Errorf("grouping search space %d of %d: %w", g.walks-len(spaces)+i, g.walks, err)
			}
			if g.walked != nil {
				g.walked(len(space))
			}
			return nil
		})
	}
	return walks.Wait()
}

func walkSpace(ctx context.Context, space []int32, start int, features Features, image []int32, rule WalkRule) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, t := read(features, space)
	if image != nil {
		rule.Images = make([]int32, len(space))
		for i, p := range space {
			rule.Images[i] = image[p]
		}
	}
	order, err := Walk(ctx, v, t, start, rule)
	if err != nil {
		return err
	}
	before := slices.Clone(space)
	for i, old := range order {
		space[i] = before[old]
	}
	return nil
}

// read collects the features of pairs.
func read(features Features, pairs []int32) (v, t *dotproduct.Matrix) {
	v, t = dotproduct.NewMatrix(len(pairs), features.Dim()), dotproduct.NewMatrix(len(pairs), features.Dim())
	for i, p := range pairs {
		features.Read(p, v.Row(i), t.Row(i))
	}
	return v, t
}
