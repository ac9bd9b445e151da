package grouper

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// gns is the strategy of [GNS].
type gns struct{}

func (gns) validate(o Options, l *invalid.List) {
	const clusters, perCluster = invalid.Field("Clusters"), invalid.Field("PerCluster")
	l.Want(o.Clusters >= 1, "%s (c) is %d, want at least 1", clusters, o.Clusters)
	l.Want(o.PerCluster >= 2, "%s (s) is %d, want at least 2", perCluster, o.PerCluster)
	l.Want(int64(o.Clusters)*int64(o.PerCluster) <= int64(o.BatchSize),
		"%s (c) is %d and %s (s) %d, want c * s of at most %s, %d", clusters, o.Clusters, perCluster, o.PerCluster, invalid.Field("BatchSize"), o.BatchSize)
}

func (gns) reads(Options, int) reads { return readsNothing }

func (gns) plan(_ context.Context, in planInput) (Plan, error) {
	o := in.options
	return GNS(in.cluster, in.image, GNSRule{o.BatchSize, o.Clusters, o.PerCluster}, in.key), nil
}

// GNSRule is how GPN-S composes a mini-batch (section 3.4): PerCluster pairs from each of Clusters clusters, and others
// at random.
type GNSRule struct {
	BatchSize  int // N
	Clusters   int // c
	PerCluster int // s; c * s is at most N, and best near N/4
}

// GNS plans an epoch. cluster[p] and image[p] number the cluster and the image of pair p, from 0.
//
// The paper draws every mini-batch anew. Here each pair is in one mini-batch of the epoch, so draws are made without
// replacement:
//
//   - One mini-batch after another draws Clusters different clusters, each with the same chance, among those that still
//     have PerCluster pairs that were not drawn, and PerCluster of these at random. When fewer such clusters are left it
//     takes all of them. A short last mini-batch draws clusters in proportion.
//   - The pairs drawn for a mini-batch show different images: a pair whose image is already there is skipped. Within a
//     cluster the first pair of each image is drawn before any second one. After 4 * PerCluster pairs looked at, a
//     cluster gives the pairs found so far.
//   - The other pairs are shuffled and fill up the mini-batches; the rule of [Random] about images applies to them.
//
// Full mini-batches are in random order, so that clusters running out late in the draw are spread over the epoch. In a
// mini-batch the pairs from clusters come first.
func GNS(cluster, image []int32, rule GNSRule, key Key) Plan {
	plan := Plan{make([]int32, len(cluster)), rule.BatchSize}
	drawn := drawClusters(cluster, image, rule, key)
	spread(drawn, len(cluster)/rule.BatchSize, key.generator("gns mini-batch shuffle"))
	rest := undrawn(drawn, len(cluster))
	shuffle(rest, key.generator("gns rest"))
	for b := range plan.Batches() {
		at := plan.Batch(b)
		filled := copy(at, drawn[b])
		rest = rest[copy(at[filled:], rest):]
	}
	separate(plan.Order, image, rule.BatchSize, func(place int) bool {
		return place%rule.BatchSize >= len(drawn[place/rule.BatchSize])
	})
	return plan
}

// drawClusters returns the pairs that each mini-batch draws from clusters.
func drawClusters(cluster, image []int32, rule GNSRule, key Key) [][]int32 {
	queues := memberQueues(cluster, image, key.generator("gns members"))
	var open []int // clusters that have enough pairs left
	for c := range queues {
		if len(queues[c]) >= rule.PerCluster {
			open = append(open, c)
		}
	}
	r := key.generator("gns clusters")
	inBatch := make([]int32, numbersIn(image)) // of each image: 1 + the last mini-batch that drew it
	drawn := make([][]int32, (len(cluster)+rule.BatchSize-1)/rule.BatchSize)
	for b := range drawn {
		size := min(rule.BatchSize, len(cluster)-b*rule.BatchSize)
		want := min(rule.Clusters*size/rule.BatchSize, len(open))
		for i := range want { // the first steps of a shuffle: open[:want] becomes the clusters drawn
			j := i + r.IntN(len(open)-i)
			open[i], open[j] = open[j], open[i]
			c := open[i]
			var taken []int32
			taken, queues[c] = take(queues[c], rule.PerCluster, func(p int32) bool {
				first := inBatch[image[p]] != int32(b+1)
				inBatch[image[p]] = int32(b + 1)
				return first
			})
			drawn[b] = append(drawn[b], taken...)
		}
		for i := want - 1; i >= 0; i-- {
			if len(queues[open[i]]) < rule.PerCluster {
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
	}
	return drawn
}

// take removes up to n pairs that fit from the head of a queue, looking at 4n at most, and returns them and the queue
// without them. Those passed over stay at the head.
func take(queue []int32, n int, fits func(int32) bool) (taken, left []int32) {
	var passed []int32
	looked := 0
	for ; looked < min(4*n, len(queue)) && len(taken) < n; looked++ {
		if p := queue[looked]; fits(p) {
			taken = append(taken, p)
		} else {
			passed = append(passed, p)
		}
	}
	left = queue[looked-len(passed):]
	copy(left, passed)
	return taken, left
}

// memberQueues lists the pairs of each cluster in random order, the first of each image before all second ones, and so
// on.
func memberQueues(cluster, image []int32, r *rand.Rand) [][]int32 {
	queues := make([][]int32, numbersIn(cluster))
	sizes := make([]int32, len(queues))
	for _, c := range cluster {
		sizes[c]++
	}
	all := make([]int32, len(cluster))
	for c, from := 0, int32(0); c < len(queues); c++ {
		queues[c] = all[from : from : from+sizes[c]]
		from += sizes[c]
	}
	for p, c := range cluster {
		queues[c] = append(queues[c], int32(p))
	}
	seen := make([]int32, numbersIn(image)) // pairs of each image so far in this cluster
	round := make([]int32, len(cluster))    // of each pair: pairs of its image before it in its cluster
	for _, queue := range queues {
		shuffle(queue, r)
		again := false
		for _, p := range queue {
			round[p] = seen[image[p]]
			seen[image[p]]++
			again = again || round[p] > 0
		}
		for _, p := range queue {
			seen[image[p]] = 0
		}
		if again {
			slices.SortStableFunc(queue, func(a, b int32) int { return int(round[a] - round[b]) })
		}
	}
	return queues
}

// spread puts the full mini-batches, of which there are so many, into random order.
func spread(drawn [][]int32, full int, r *rand.Rand) {
	r.Shuffle(full, func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
}

// undrawn lists the pairs below n that no mini-batch drew, in ascending order.
func undrawn(drawn [][]int32, n int) []int32 {
	taken := make([]bool, n)
	for _, pairs := range drawn {
		for _, p := range pairs {
			taken[p] = true
		}
	}
	rest := make([]int32, 0, n)
	for p := range int32(n) {
		if !taken[p] {
			rest = append(rest, p)
		}
	}
	return rest
}
