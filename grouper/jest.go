package grouper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// jest is the strategy of [JEST].
type jest struct{}

func (jest) validate(o Options, l *invalid.List) {
	rule := jestRule(o)
	if !(rule.Filter > 0 && rule.Filter < 1) {
		l.Want(false, "%s is %s:%g, want a filter ratio above 0 and below 1", invalid.Field("Strategy"), StrategyJEST, rule.Filter)
		return
	}
	super := float64(o.BatchSize) / (1 - rule.Filter)
	l.Want(super <= mostSuperBatch, "%s is %s:%g and %s %d: a super-batch has %.0f pairs, want at most %d",
		invalid.Field("Strategy"), StrategyJEST, rule.Filter, invalid.Field("BatchSize"), o.BatchSize, super, mostSuperBatch)
}

// mostSuperBatch bounds the memory of a super-batch: 540 MB for vectors of 256 values.
const mostSuperBatch = 1 << 17

func (jest) reads(_ Options, epoch int) reads {
	if epoch == 0 {
		return readsNothing
	}
	return readsBoth
}

// kept implements [selecting].
func (jest) kept(o Options, epoch, pairs int) int {
	if epoch == 0 {
		return pairs
	}
	return jestRule(o).kept(pairs)
}

// plan is random in epoch 0, which no features of the learner precede.
func (jest) plan(ctx context.Context, in planInput) (Plan, error) {
	if in.key.Epoch == 0 {
		return Random(in.image, in.options.BatchSize, in.key), nil
	}
	return JEST(ctx, in.features, in.encoder, in.image, jestRule(in.options), in.key.jestDraws())
}

func jestRule(o Options) JESTRule {
	return JESTRule{o.BatchSize, cmp.Or(o.Filter, defaultFilter), o.Workers}
}

// defaultFilter is the filter ratio in the signature of algorithm 1.
const defaultFilter = 0.8

// JESTRule says how JEST selects the mini-batches of an epoch.
type JESTRule struct {
	BatchSize int     // b: pairs that a super-batch keeps
	Filter    float64 // f: share of a super-batch that is left out, above 0 and below 1
	Workers   int
}

// superBatch returns B, the pairs of a super-batch: b / (1 - f), rounded.
func (r JESTRule) superBatch() int { return int(math.Round(float64(r.BatchSize) / (1 - r.Filter))) }

// kept returns how many of so many pairs an epoch has. A short last super-batch keeps its share, rounded up.
func (r JESTRule) kept(pairs int) int {
	super := r.superBatch()
	return pairs/super*r.BatchSize + (pairs%super*r.BatchSize+super-1)/super
}

// jestChunks is n of algorithm 1: a mini-batch is drawn in so many chunks.
const jestChunks = 16

// JESTDraws are the random choices of JEST. [Key] has those of production; a test plays back recorded ones.
type JESTDraws interface {
	// Order is the order in which n pairs are cut into super-batches.
	Order(n int) []int32
	// Gumbel returns a source of standard Gumbel variates for a super-batch, in units of 2^-24: one for each of its
	// pairs, in order, and as many for the next chunk.
	Gumbel(superBatch int) func() int64
}

type jestKey struct{ Key }

func (k Key) jestDraws() JESTDraws { return jestKey{k} }

func (k jestKey) Order(n int) []int32 { return permutation(n, k.generator("super-batches")) }

func (k jestKey) Gumbel(superBatch int) func() int64 {
	r := k.generator("super-batch", int64(superBatch))
	return func() int64 { return gumbel(r.Uint64()) }
}

// JEST plans an epoch by joint example selection (Evans, Parthasarathy, Merzic and Hénaff 2024, arXiv 2406.17711,
// algorithm 1). The learner is the model in training, whose features come from the epoch before. The reference is the
// encoder. image[p] numbers the image of pair p, from 0.
//
//  1. All pairs, in random order, are cut into super-batches of B = b / (1 - f). Each gives one mini-batch of b pairs.
//  2. The score of image i and text j is the learner's loss minus the reference's, the learnability. The loss is that of
//     the sigmoid (Zhai et al. 2023): log(1 + exp(-z (a v.t + c))), with z = 1 for i = j and -1 otherwise, a = 10 and
//     c = -10 for both models.
//  3. The mini-batch is drawn in 16 chunks, without replacement. The logit of pair i is score(i, i), and for every pair j
//     of earlier chunks score(i, j) + score(j, i). A chunk is the pairs of the greatest sums of logit and Gumbel variate.
//
// Algorithm 1 takes the learned a and c of each model, which no record holds. Two rules are added. A pair whose image the
// mini-batch already has is drawn only when nothing else is left. A pair without features of the learner, which the
// trainer could not use, is drawn last.
//
// The plan holds the drawn pairs alone. Scores are integers in units of 2^-24, so equal inputs give equal plans on every
// machine; equal sums go to the pair that comes first in the super-batch. Only products with drawn pairs are made: B * b
// for each model and direction.
func JEST(ctx context.Context, learner, reference Features, image []int32, rule JESTRule, draws JESTDraws) (Plan, error) {
	if learner == nil || reference == nil {
		return Plan{}, fmt.Errorf("selecting by learnability: features of the learner: %t, of the reference: %t, want both",
			learner != nil, reference != nil)
	}
	super := slices.Collect(slices.Chunk(draws.Order(len(image)), rule.superBatch()))
	parts := make([][]int32, len(super))
	selections, ctx := errgroup.WithContext(ctx)
	selections.SetLimit(max(1, rule.Workers))
	for k, pairs := range super {
		selections.Go(func() error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("selecting from super-batch %d of %d: %w", k, len(super), err)
			}
			s := newSuperBatch(learner, reference, image, pairs)
			parts[k] = s.draw(rule.kept(len(pairs)), draws.Gumbel(k))
			return nil
		})
	}
	if err := selections.Wait(); err != nil {
		return Plan{}, err
	}
	return Plan{slices.Concat(parts...), rule.BatchSize}, nil
}

// superBatch is a super-batch that a mini-batch is drawn from.
type superBatch struct {
	pairs              []int32
	image              []int32 // of each of them
	learner, reference model
	logits             []int64 // conditional on the pairs that were drawn
	sums               []int64 // logits and Gumbel variates
	tier               []uint8
	shown              map[int32]bool // images of the drawn pairs
	products, others   []float32
}

// The tiers of pairs. A pair of a later tier is drawn when those before are empty.
const (
	tierFree  uint8 = iota
	tierShown       // the mini-batch has its image
	tierBlank       // the learner has no features of it
	tierDrawn
)

// model holds the features of a super-batch by one of the two models.
type model struct{ v, t *dotproduct.Matrix }

// own returns the product of a pair's image and text.
func (m model) own(i int32) float32 {
	var product [1]float32
	dotproduct.Gather(product[:], m.v.Row(int(i)), m.t, []int32{i})
	return product[0]
}

func newSuperBatch(learner, reference Features, image, pairs []int32) *superBatch {
	s := &superBatch{
		pairs: pairs, image: make([]int32, len(pairs)), shown: make(map[int32]bool),
		logits: make([]int64, len(pairs)), sums: make([]int64, len(pairs)), tier: make([]uint8, len(pairs)),
	}
	s.learner.v, s.learner.t = read(learner, pairs)
	s.reference.v, s.reference.t = read(reference, pairs)
	for i, p := range pairs {
		s.image[i] = image[p]
		s.logits[i] = matched(s.learner.own(int32(i))) - matched(s.reference.own(int32(i)))
		if isZero(s.learner.v.Row(i)) || isZero(s.learner.t.Row(i)) {
			s.tier[i] = tierBlank
		}
	}
	return s
}

func isZero(row []float32) bool {
	return !slices.ContainsFunc(row, func(x float32) bool { return x != 0 })
}

// draw draws so many of the pairs, chunk by chunk.
func (s *superBatch) draw(keep int, gumbel func() int64) []int32 {
	drawn := make([]int32, 0, keep)
	chunks := min(jestChunks, keep)
	for chunk := range chunks {
		for i, logit := range s.logits {
			s.sums[i] = logit + gumbel()
		}
		from := len(drawn)
		for len(drawn) < keep*(chunk+1)/chunks {
			drawn = append(drawn, s.take())
		}
		if chunk < chunks-1 {
			s.condition(drawn[from:])
		}
	}
	for k, i := range drawn {
		drawn[k] = s.pairs[i]
	}
	return drawn
}

// take draws the pair of the greatest sum in the first tier that has pairs.
func (s *superBatch) take() int32 {
	best := -1
	for i, sum := range s.sums {
		if s.tier[i] != tierDrawn && (best < 0 || s.tier[i] < s.tier[best] || s.tier[i] == s.tier[best] && sum > s.sums[best]) {
			best = i
		}
	}
	s.tier[best] = tierDrawn
	if image := s.image[best]; !s.shown[image] {
		s.shown[image] = true
		for i, other := range s.image {
			if other == image && s.tier[i] == tierFree {
				s.tier[i] = tierShown
			}
		}
	}
	return int32(best)
}

// condition adds the scores with the pairs of a chunk to the logits of all.
func (s *superBatch) condition(chunk []int32) {
	all := len(s.pairs)
	size := fours(len(chunk)) * all
	if len(s.products) < size {
		s.products, s.others = make([]float32, size), make([]float32, size)
	}
	learner, reference := s.products[:size], s.others[:size]
	for _, images := range []bool{true, false} { // of the chunk with all texts, then its texts with all images
		s.learner.multiply(learner, chunk, images)
		s.reference.multiply(reference, chunk, images)
		for k, i := range chunk {
			for j, product := range learner[k*all : (k+1)*all] {
				if int32(j) != i {
					s.logits[j] += unmatched(product) - unmatched(reference[k*all+j])
				}
			}
		}
	}
}

// multiply writes the products of the images of a chunk with all texts, or of its texts with all images.
func (m model) multiply(dst []float32, chunk []int32, images bool) {
	from, all := m.v, m.t
	if !images {
		from, all = m.t, m.v
	}
	rows := dotproduct.NewMatrix(fours(len(chunk)), from.Dim())
	for k, i := range chunk {
		copy(rows.Row(k), from.Row(int(i)))
	}
	dotproduct.Block(dst, rows, 0, rows.Rows(), all, 0, all.Rows())
}

// fours rounds a number of rows up to a multiple of four: vector code multiplies four rows at a time.
func fours(rows int) int { return (rows + 3) / 4 * 4 }
