package grouper

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

var testKey = Key{Seed: 5, Group: schemas.GroupID{Lane: 1, Seq: 2}, Epoch: 3}

// plans makes a plan of each strategy over pairs that share images.
func plans(t *testing.T, image []int32, batchSize, workers int, key Key) map[string]Plan {
	t.Helper()
	n := len(image)
	r := rng.New(8, "clusters", int64(n))
	cluster := make([]int32, n)
	for i := range cluster {
		cluster[i] = int32(r.IntN(r.IntN(20) + 1)) // some clusters are large, some small
	}
	out := map[string]Plan{
		"random": Random(image, batchSize, key),
		"gns":    GNS(cluster, image, GNSRule{batchSize, 3, 2}, key),
	}
	f := rows{features(n, 12, 7, 0.5, 1), features(n, 12, 7, 0.5, 2)}
	out["b3"] = must.Get(B3(t.Context(), f, cluster, image, B3Rule{batchSize, 6 * batchSize, 2, workers}, key))(t)
	encoder := rows{features(n, 10, 7, 0.5, 3), features(n, 10, 7, 0.5, 4)}
	out["jest"] = must.Get(JEST(t.Context(), f, encoder, image, JESTRule{batchSize, 0.5, workers}, key.jestDraws()))(t)
	for _, sizes := range [][2]int{{0, 0}, {0, 2}, {6, 0}, {6, 3}, {1, 1}} {
		rule := GRITRule{BatchSize: batchSize, QueueSize: sizes[0] * batchSize, SearchSpace: sizes[1] * batchSize, Workers: workers}
		plan := must.Get(GRIT(context.Background(), permutation(n, key.generator("collecting")), f, image, rule, key.Draws()))(t)
		out[fmt.Sprintf("grit, queue of %d, search space of %d mini-batches", sizes[0], sizes[1])] = plan
	}
	return out
}

func TestEveryPairIsInEveryEpochOnce(t *testing.T) {
	const batchSize = 8
	for _, n := range []int{0, 1, 7, 8, 9, 16, 47, 48, 49, 72, 96, 99, 500} { // 72 leaves 24 in the queue: a multiple of M
		image := make([]int32, n)
		for i := range image {
			image[i] = int32(i / 3)
		}
		for name, plan := range plans(t, image, batchSize, 1, testKey) {
			t.Run(fmt.Sprintf("%d pairs, %s", n, name), func(t *testing.T) {
				kept := n
				if name == "jest" {
					kept = n/16*8 + (n%16+1)/2 // half of each super-batch
				}
				once := slices.Compact(slices.Sorted(slices.Values(plan.Order)))
				if len(once) != kept || len(plan.Order) != kept || kept > 0 && (once[0] < 0 || int(once[kept-1]) >= n) {
					t.Errorf("the order %d has not %d of %d pairs once each", plan.Order, kept, n)
				}
				total := 0
				for i := range plan.Batches() {
					size := len(plan.Batch(i))
					if size == 0 || size > batchSize || size < batchSize && i < plan.Batches()-1 {
						t.Errorf("mini-batch %d of %d has %d pairs", i, plan.Batches(), size)
					}
					total += size
				}
				if total != kept {
					t.Errorf("mini-batches hold %d pairs, want %d", total, kept)
				}
			})
		}
	}
}

func TestPlansDependOnTheirKeyAlone(t *testing.T) {
	image := make([]int32, 400)
	for i := range image {
		image[i] = int32(i / 2)
	}
	first, again := plans(t, image, 16, 1, testKey), plans(t, image, 16, 4, testKey)
	for name, plan := range first {
		if !slices.Equal(plan.Order, again[name].Order) {
			t.Errorf("%s: two orders for one key", name)
		}
	}
	for what, key := range map[string]Key{
		"seed":  {6, testKey.Group, 3},
		"group": {5, schemas.GroupID{Lane: 1, Seq: 3}, 3},
		"lane":  {5, schemas.GroupID{Lane: 2, Seq: 2}, 3},
		"epoch": {5, testKey.Group, 4},
	} {
		for name, plan := range plans(t, image, 16, 1, key) {
			if slices.Equal(plan.Order, first[name].Order) {
				t.Errorf("%s: another %s, the same order", name, what)
			}
		}
	}
}

// TestNoMiniBatchSharesAnImage is the typical case: 700 photographs with five captions each.
func TestNoMiniBatchSharesAnImage(t *testing.T) {
	const batchSize = 64
	image, cluster := make([]int32, 3500), make([]int32, 3500)
	for i := range image {
		image[i], cluster[i] = int32(i/5), int32(i/5%40)
	}
	for seed := range uint64(20) {
		key := Key{Seed: seed}
		if got := sharedImages(Random(image, batchSize, key).Order, image, batchSize); got > 0 {
			t.Errorf("seed %d: random has %d pairs beside their image", seed, got)
		}
		if got := sharedImages(GNS(cluster, image, GNSRule{batchSize, 5, 3}, key).Order, image, batchSize); got > 0 {
			t.Errorf("seed %d: gns has %d pairs beside their image", seed, got)
		}
		if seed > 2 { // the others take longer
			continue
		}
		f := rows{features(3500, 12, 40, 0.3, 1), features(3500, 12, 40, 0.3, 2)}
		plan := must.Get(B3(t.Context(), f, cluster, image, B3Rule{batchSize, 10 * batchSize, 5, 2}, key))(t)
		if got := sharedImages(plan.Order, image, batchSize); got > 0 {
			t.Errorf("seed %d: b3 has %d pairs beside their image", seed, got)
		}
		learner := rows{features(3500, 8, 40, 0.3, 3), features(3500, 8, 40, 0.3, 4)}
		plan = must.Get(JEST(t.Context(), learner, f, image, JESTRule{batchSize, 0.5, 2}, key.jestDraws()))(t)
		if got := sharedImages(plan.Order, image, batchSize); got > 0 {
			t.Errorf("seed %d: jest has %d pairs beside their image", seed, got)
		}
	}
	if got := sharedImages(permutation(3500, rng.New(1, "plain")), image, batchSize); got == 0 {
		t.Error("a plain shuffle has none either: the test says nothing")
	}
}

func TestSeparateDoesWhatCanBeDone(t *testing.T) {
	for name, c := range map[string]struct {
		image     []int32
		batchSize int
		shared    int
	}{
		"one image":                             {slices.Repeat([]int32{0}, 12), 4, 12 - 3},
		"as many pairs as mini-batches":         {append(slices.Repeat([]int32{0}, 5), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 4, 0},
		"one more than that":                    {append(slices.Repeat([]int32{0}, 6), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), 4, 1},
		"a short last mini-batch":               {[]int32{0, 0, 0, 1, 2, 3, 4}, 3, 0},
		"two images that can only just be kept": {[]int32{0, 0, 0, 1, 1, 1}, 2, 0},
		"one mini-batch":                        {[]int32{0, 0, 1}, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				plan := Random(c.image, c.batchSize, Key{Seed: seed})
				if got := sharedImages(plan.Order, c.image, c.batchSize); got != c.shared {
					t.Errorf("seed %d: %d pairs beside their image, want %d: %d", seed, got, c.shared, plan.Order)
				}
			}
		})
	}
}

func TestGNSTakesWholeClusters(t *testing.T) {
	const n, clusters, batchSize = 2400, 30, 32
	rule := GNSRule{batchSize, 4, 3}
	cluster := make([]int32, n)
	for i := range cluster {
		cluster[i] = int32(i % clusters)
	}
	plan := GNS(cluster, distinct(n), rule, testKey)
	drawn := make(map[int32]int)
	for b := range plan.Batches() {
		seen := make(map[int32]bool)
		for k := range rule.Clusters {
			part := plan.Batch(b)[k*rule.PerCluster:][:rule.PerCluster]
			c := cluster[part[0]]
			for _, p := range part {
				if cluster[p] != c {
					t.Fatalf("mini-batch %d: pairs %d are of different clusters", b, part)
				}
			}
			if seen[c] {
				t.Errorf("mini-batch %d draws cluster %d twice", b, c)
			}
			seen[c] = true
			drawn[c]++
		}
	}
	if len(drawn) != clusters {
		t.Errorf("only %d of %d clusters were ever drawn", len(drawn), clusters)
	}
}

func TestGNSWhenClustersRunOut(t *testing.T) {
	for name, c := range map[string]struct {
		cluster []int32
		rule    GNSRule
		want    int // pairs drawn from clusters, over the epoch
	}{
		"clusters smaller than the share":      {[]int32{0, 0, 1, 1, 2, 2, 3, 3}, GNSRule{4, 1, 3}, 0},
		"one cluster":                          {make([]int32, 12), GNSRule{4, 2, 2}, 6},
		"fewer clusters than asked for":        {[]int32{0, 0, 0, 0, 0, 0, 1, 2}, GNSRule{4, 2, 2}, 4},
		"a short mini-batch draws less":        {[]int32{0, 0, 0, 0, 1, 1}, GNSRule{4, 2, 2}, 4 + 2},
		"too short a mini-batch draws nothing": {[]int32{0, 0, 0, 1, 1, 1, 2, 2, 2}, GNSRule{8, 2, 2}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := 0
			for _, pairs := range drawClusters(c.cluster, distinct(len(c.cluster)), c.rule, testKey) {
				got += len(pairs)
			}
			if got != c.want {
				t.Errorf("%d pairs come from clusters, want %d", got, c.want)
			}
		})
	}
}

func TestGNSPassesOverSharedImages(t *testing.T) {
	cluster := make([]int32, 12)
	image := []int32{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1} // a cluster of two images gives two pairs, then one at a time
	for b, pairs := range drawClusters(cluster, image, GNSRule{4, 1, 3}, testKey) {
		if want := []int{2, 1, 1}[b]; len(pairs) != want {
			t.Errorf("mini-batch %d draws %d, want %d pairs", b, pairs, want)
		}
	}
}

func TestGRITStarts(t *testing.T) {
	f := rows{features(8, 4, 1, 1, 1), features(8, 4, 1, 1, 2)}
	for released, want := range map[bool][]int{false: {3, 3, 2}, true: {2, 2, 1}} {
		d := &askedStarts{}
		must.Get(GRIT(context.Background(), distinct(8), f, distinct(8), GRITRule{BatchSize: 3, SearchSpace: 3, StartAsReleased: released}, d))(t)
		if !slices.Equal(d.asked, want) {
			t.Errorf("as released %t: starts below %d, want below %d", released, d.asked, want)
		}
	}
}

type askedStarts struct{ asked []int }

func (a *askedStarts) Examples(_, n int) []int32 { return distinct(n) }
func (a *askedStarts) Cuts(n int) []int32        { return distinct(n) }
func (a *askedStarts) Start(_, n int) int {
	a.asked = append(a.asked, n)
	return n - 1
}

func TestGRITStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := rows{features(8, 4, 1, 1, 1), features(8, 4, 1, 1, 2)}
	if plan, err := GRIT(ctx, distinct(8), f, distinct(8), GRITRule{BatchSize: 2}, testKey.Draws()); err == nil || plan.Order != nil {
		t.Errorf("got %v, %v", plan, err)
	}
}
