package grouper

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestCommunitiesAreTheOracles(t *testing.T) {
	f := openOracle(t, "b3.safetensors")
	image, want := f.numbers("image"), f.numbers("order")
	graph := must.Get(rankGraph(t.Context(), f.rows("v"), f.rows("t"), image, int(f.numbers("skip")[0]), int(f.numbers("ranks")[0])))(t)
	var sizes []int
	for _, size := range f.numbers("sizes") {
		sizes = append(sizes, int(size))
	}
	communities, left := growCommunities(graph, image, sizes)
	if len(communities) != len(sizes) {
		t.Fatalf("%d communities, want %d", len(communities), len(sizes))
	}
	for k, community := range append(communities, left) {
		if !slices.Equal(community, want[:len(community)]) {
			t.Fatalf("community %d has the pairs %d, want %d", k, community, want[:len(community)])
		}
		want = want[len(community):]
	}
	if len(want) > 0 {
		t.Errorf("the pairs %d are missing", want)
	}
}

// ranksByDefinition sorts all pairs of other images.
func ranksByDefinition(products []float32, image []int32, own int32, skip, count int) []int32 {
	var others []int32
	for j := range products {
		if image[j] != own {
			others = append(others, int32(j))
		}
	}
	slices.SortStableFunc(others, func(a, b int32) int {
		switch {
		case products[a] > products[b]:
			return -1
		case products[a] < products[b]:
			return 1
		}
		return 0
	})
	others = others[min(skip, len(others)):]
	return slices.Sorted(slices.Values(others[:min(count, len(others))]))
}

// Ranks are those of sorted products: with many equal ones, with close ones, and of few pairs.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		n, skip, count, captions int
		spread                   float64
		levels                   float32 // values are rounded to so many levels; 0: not
	}{
		{1, 3, 5, 1, 1, 0},
		{7, 3, 5, 2, 1, 0},
		{95, 1, 9, 1, 1, 0},
		{97, 4, 12, 3, 0.2, 0},
		{500, 30, 100, 5, 0.5, 0},
		{700, 10, 20, 1, 1e-4, 0},
		{400, 10, 20, 1, 1, 2},
		{400, 3, 5, 2, 1e-9, 0},
		{300, 299, 10, 1, 1, 0},
	} {
		v, text := features(c.n, 20, 5, c.spread, 1), features(c.n, 20, 5, c.spread, 2)
		image := make([]int32, c.n)
		for i := range image {
			image[i] = int32(i / c.captions)
			for k, x := range text.Row(i) {
				if c.levels > 0 {
					text.Row(i)[k] = float32(int32(x*c.levels)) / c.levels
				}
			}
		}
		products := make([]float32, c.n*c.n)
		dotproduct.Block(products, v, 0, c.n, text, 0, c.n)
		lists := make([][]int32, c.n)
		for i := range lists {
			lists[i] = ranksByDefinition(products[i*c.n:(i+1)*c.n], image, image[i], c.skip, c.count)
		}
		want, got := newNeighbours(lists), must.Get(rankGraph(t.Context(), v, text, image, c.skip, c.count))(t)
		for i := range int32(c.n) {
			if a, b := slices.Sorted(slices.Values(got.of(i))), slices.Sorted(slices.Values(want.of(i))); !slices.Equal(a, b) {
				t.Fatalf("%+v: pair %d has the neighbours %d, want %d", c, i, a, b)
			}
		}
	}
}

// A mini-batch is whole communities, each of one search space. Those of one mini-batch come from the whole epoch.
func TestB3TakesWholeCommunities(t *testing.T) {
	const n = 2*480 + 300
	f := rows{features(n, 12, 30, 0.5, 1), features(n, 12, 30, 0.5, 2)}
	rule := B3Rule{BatchSize: 96, SearchSpace: 480, Skip: 5, Workers: 2}
	plan := must.Get(B3(t.Context(), f, make([]int32, n), distinct(n), rule, testKey))(t)
	community := make([]int, n) // of each pair: 1 + the number of its community
	number := 0
	order := permutation(n, testKey.generator("b3 order"))
	var left []int32
	for space := range slices.Chunk(order, 480) {
		communities, rest, err := splitSpace(t.Context(), f, distinct(n), space, rule)
		must.Do(t, err)
		for _, pairs := range communities {
			number++
			for _, p := range pairs {
				community[p] = number
			}
		}
		left = append(left, rest...)
	}
	mixed := 0
	for b := range n / 96 {
		seen := map[int]bool{}
		for part := range slices.Chunk(plan.Batch(b), 32) {
			first := community[part[0]]
			seen[(first-1)/15] = true
			for _, p := range part {
				if community[p] != first || first == 0 {
					t.Fatalf("mini-batch %d: pairs %d are no community", b, part)
				}
			}
		}
		if len(seen) > 1 {
			mixed++
		}
	}
	if last := plan.Batch(n / 96); !slices.Equal(last, left) || len(left) != 12 {
		t.Errorf("the last mini-batch is %d, want the pairs that are left, %d", last, left)
	}
	if mixed == 0 {
		t.Error("no mini-batch has communities of two search spaces")
	}
}

// With one community a mini-batch, the pairs that are left still come last.
func TestB3LeavesWholeMiniBatches(t *testing.T) {
	const n = 43
	f := rows{features(n, 12, 5, 0.5, 1), features(n, 12, 5, 0.5, 2)}
	rule := B3Rule{BatchSize: 8, SearchSpace: 24, Skip: 2, Workers: 1}
	plan := must.Get(B3(t.Context(), f, make([]int32, n), distinct(n), rule, testKey))(t)
	space := permutation(n, testKey.generator("b3 order"))[24:]
	communities, left, err := splitSpace(t.Context(), f, distinct(n), space, rule)
	must.Do(t, err)
	if !slices.Equal(plan.Order[40:], left) || len(left) != 3 {
		t.Errorf("the last pairs are %d, want %d", plan.Order[40:], left)
	}
	for _, community := range communities {
		if !slices.ContainsFunc([]int{0, 1, 2, 3, 4}, func(b int) bool { return slices.Equal(plan.Batch(b), community) }) {
			t.Errorf("community %d is no mini-batch", community)
		}
	}
}

func TestCommunitySizes(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 8: {8}, 32: {32}, 33: {16, 17}, 64: {32, 32}, 96: {32, 32, 32}, 100: {25, 25, 25, 25}, 97: {24, 24, 24, 25}} {
		if got := (B3Rule{BatchSize: n}).communitySizes(); !slices.Equal(got, want) {
			t.Errorf("mini-batches of %d: communities of %d, want %d", n, got, want)
		}
	}
}

func TestB3Stops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := rows{features(8, 4, 1, 1, 1), features(8, 4, 1, 1, 2)}
	if plan, err := B3(ctx, f, make([]int32, 8), distinct(8), B3Rule{2, 4, 1, 1}, testKey); !errors.Is(err, context.Canceled) || plan.Order != nil {
		t.Errorf("got %v, %v", plan, err)
	}
}
