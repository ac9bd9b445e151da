package grouper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// walkByDefinition is the walk written down as the paper has it: look at every pair, in order of index.
func walkByDefinition(v, t *dotproduct.Matrix, start int, rule WalkRule) []int32 {
	n := v.Rows()
	visited := make([]bool, n)
	score := make([]float32, 1)
	order := []int32{int32(start)}
	visited[start] = true
	for len(order) < n {
		current := int(order[len(order)-1])
		inBatch := map[int32]bool{}
		if rule.Images != nil && rule.BatchSize > 0 {
			for _, p := range order[len(order)/rule.BatchSize*rule.BatchSize:] {
				inBatch[rule.Images[p]] = true
			}
		}
		best, bestPassed := -1, -1
		var bestScore, bestPassedScore float32
		for j := range n {
			if visited[j] {
				continue
			}
			i, k := current, j
			if len(order)%2 == 0 {
				i, k = j, current
			}
			dotproduct.Block(score, v, i, 1, t, k, 1)
			if rule.Images != nil && inBatch[rule.Images[j]] {
				if bestPassed < 0 || score[0] > bestPassedScore {
					bestPassed, bestPassedScore = j, score[0]
				}
			} else if best < 0 || score[0] > bestScore {
				best, bestScore = j, score[0]
			}
		}
		if best < 0 {
			best = bestPassed
		}
		visited[best] = true
		order = append(order, int32(best))
	}
	return order
}

// features draws n unit rows around a number of centres; spread 0 makes all rows of a centre equal, so that ties
// decide.
func features(n, dim, centres int, spread float64, key int64) *dotproduct.Matrix {
	r := rng.New(3, "features", key)
	c := rng.New(3, "centres") // the same for images and texts
	middle := make([][]float64, centres)
	for i := range middle {
		for range dim {
			middle[i] = append(middle[i], c.NormFloat64())
		}
	}
	m := dotproduct.NewMatrix(n, dim)
	for i := range n {
		var sum float64
		row := make([]float64, dim)
		for k := range row {
			row[k] = middle[i%centres][k] + spread*r.NormFloat64()
			sum += row[k] * row[k]
		}
		for k := range row {
			m.Row(i)[k] = float32(row[k] / math.Sqrt(sum))
		}
	}
	return m
}

func TestWalkIsTheGreedyOne(t *testing.T) {
	for _, data := range []struct {
		name       string
		n, centres int
		spread     float64
	}{
		{"one pair", 1, 1, 1},
		{"two pairs", 2, 1, 1},
		{"three", 3, 2, 1},
		{"random", 300, 1, 100},
		{"clustered", 301, 5, 0.3},
		{"tight clusters", 260, 7, 0.01},
		{"ties only", 120, 4, 0},
		{"all equal", 70, 1, 0},
		{"several tiles", 700, 9, 0.2},
	} {
		v, tt := features(data.n, 20, data.centres, data.spread, 1), features(data.n, 20, data.centres, data.spread, 2)
		byFive := make([]int32, data.n)
		few := make([]int32, data.n)
		for i := range byFive {
			byFive[i], few[i] = int32(i/5), int32(i%3)
		}
		for _, rule := range []WalkRule{
			{}, {Workers: 3}, {Images: byFive, BatchSize: 16, Workers: 2}, {Images: few, BatchSize: 10}, {Images: few},
		} {
			start := data.n / 2
			want := walkByDefinition(v, tt, start, rule)
			for _, tune := range []tuning{{lists: 1, grain: 10}, {lists: 4, grain: 10}, {lists: 32, grain: 10}, {lists: 4, codes: true}, {codes: true, whole: math.MaxInt}} {
				name := fmt.Sprintf("%s/images %t, batch %d, workers %d, %+v", data.name, rule.Images != nil, rule.BatchSize, rule.Workers, tune)
				t.Run(name, func(t *testing.T) {
					got := must.Get(walk(context.Background(), v, tt, start, rule, tune))(t)
					if !slices.Equal(got, want) {
						t.Errorf("got  %v\nwant %v", got, want)
					}
				})
			}
		}
	}
}

func TestWalkKeepsAnImageOutOfItsMiniBatch(t *testing.T) {
	const n, batch = 500, 20
	v, tt := features(n, 16, 100, 0.1, 1), features(n, 16, 100, 0.1, 2)
	images := make([]int32, n)
	for i := range images {
		images[i] = int32(i % 100) // pairs of a centre are those of an image: five captions, all near one another
	}
	order := must.Get(Walk(context.Background(), v, tt, 0, WalkRule{Images: images, BatchSize: batch, Workers: 2}))(t)
	if got := sharedImages(order[:n-batch], images, batch); got != 0 {
		t.Errorf("%d pairs share a mini-batch with their image before the last one", got)
	}
	plain := must.Get(Walk(context.Background(), v, tt, 0, WalkRule{Workers: 2}))(t)
	if got := sharedImages(plain, images, batch); got < n/2 {
		t.Errorf("only %d pairs share a mini-batch with their image without the rule: the test says nothing", got)
	}
}

// sharedImages counts the pairs whose image an earlier pair of the same mini-batch has.
func sharedImages(order, images []int32, batch int) int {
	count := 0
	for b := range slices.Chunk(order, batch) {
		seen := map[int32]bool{}
		for _, p := range b {
			if seen[images[p]] {
				count++
			}
			seen[images[p]] = true
		}
	}
	return count
}

func TestWalkRefuses(t *testing.T) {
	m, other := dotproduct.NewMatrix(3, 4), dotproduct.NewMatrix(2, 4)
	for name, f := range map[string]func() ([]int32, error){
		"fewer texts":         func() ([]int32, error) { return Walk(context.Background(), m, other, 0, WalkRule{}) },
		"a start behind":      func() ([]int32, error) { return Walk(context.Background(), m, m, 3, WalkRule{}) },
		"a start before":      func() ([]int32, error) { return Walk(context.Background(), m, m, -1, WalkRule{}) },
		"fewer image numbers": func() ([]int32, error) { return Walk(context.Background(), m, m, 0, WalkRule{Images: []int32{1}}) },
		"a cancelled context": func() ([]int32, error) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return Walk(ctx, m, m, 0, WalkRule{})
		},
	} {
		if order, err := f(); err == nil || order != nil {
			t.Errorf("%s: got %v, %v", name, order, err)
		}
	}
	if order, err := Walk(context.Background(), dotproduct.NewMatrix(0, 4), dotproduct.NewMatrix(0, 4), 0, WalkRule{}); err != nil || len(order) != 0 {
		t.Errorf("no pairs: got %v, %v", order, err)
	}
}

// TestListsKeepTheGreatest holds a list and its floor against all that was offered.
func TestListsKeepTheGreatest(t *testing.T) {
	r := rng.New(4, "lists")
	for _, size := range []int{1, 3, 30} {
		for _, values := range []int{2, 10, 1 << 30} {
			l := newFixedLists(2, size)
			var all []int64
			for partner := range 1000 {
				product := int32(r.IntN(values)) - int32(values/2)
				all = append(all, int64(product)<<32|int64(partner))
				if product > l.floor[1] {
					l.offer(1, partner, product)
				}
			}
			slices.Sort(all)
			slices.Reverse(all)
			got := slices.Sorted(slices.Values(l.list(1)))
			slices.Reverse(got)
			if len(got) < size || len(l.list(0)) != 0 {
				t.Fatalf("size %d, %d values: a list of %d, and one of %d that nothing was offered to", size, values, len(got), len(l.list(0)))
			}
			for _, e := range all {
				if product := int32(e >> 32); product > l.floor[1] && !slices.Contains(got, e) {
					t.Fatalf("size %d, %d values: product %d is above the floor %d and not in the list", size, values, product, l.floor[1])
				}
			}
		}
	}
}
