package grouper

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// alike fills mini-batches with pairs of one cluster.
type alike struct{}

func (alike) validate(o Options, l *invalid.List) {
	l.Want(o.BatchSize >= 2, "%s is %d, want at least 2", invalid.Field("BatchSize"), o.BatchSize)
}

func (alike) reads(Options, int) reads { return readsNothing }

func (alike) plan(_ context.Context, in planInput) (Plan, error) {
	n := in.options.BatchSize
	order := permutation(in.pairs(), in.key.generator("alike pairs"))
	slices.SortStableFunc(order, func(a, b int32) int { return int(in.cluster[a] - in.cluster[b]) })
	full := len(order) / n
	mixed := make([]int32, 0, len(order))
	for _, b := range permutation(full, in.key.generator("alike mini-batches")) {
		mixed = append(mixed, order[int(b)*n:int(b+1)*n]...)
	}
	return Plan{append(mixed, order[full*n:]...), n}, nil
}

// TestOwnStrategy plans a group by the strategy above. It holds that docs/strategies.md shows this code.
func TestOwnStrategy(t *testing.T) {
	strategies["alike"] = alike{}
	defer delete(strategies, "alike")
	o := Defaults()
	o.Strategy, o.Epochs, o.BatchSize, o.Candidates = "alike", 2, 6, 0
	must.Do(t, o.Validate())
	input := func(epoch int) planInput {
		cluster := make([]int32, 40)
		for i := range cluster {
			cluster[i] = int32(i % 3)
		}
		return planInput{options: o, key: Key{Seed: 5, Epoch: epoch}, image: ascending(40), cluster: cluster}
	}
	plan := must.Get(alike{}.plan(t.Context(), input(0)))(t)
	if again := must.Get(alike{}.plan(t.Context(), input(0)))(t); !slices.Equal(again.Order, plan.Order) {
		t.Error("the same input gave another plan")
	}
	if other := must.Get(alike{}.plan(t.Context(), input(1)))(t); slices.Equal(other.Order, plan.Order) {
		t.Error("two epochs have the same plan")
	}
	if sorted := slices.Sorted(slices.Values(plan.Order)); !slices.Equal(sorted, ascending(40)) {
		t.Errorf("the plan has the pairs %v", sorted)
	}
	log := newLog()
	log.addGroup(0, 40, 1)
	batches := 0
	for _, r := range drive(t, must.Get(NewLane(o, testLane))(t), log) {
		if b, ok := r.(*schemas.Batch); ok && b.Strategy == "alike" {
			batches++
		}
	}
	if batches != 14 {
		t.Errorf("the lane emitted %d mini-batches of the strategy, want 14", batches)
	}

	own, page := string(must.Get(os.ReadFile("strategy_test.go"))(t)), string(must.Get(os.ReadFile("../docs/strategies.md"))(t))
	example := own[strings.Index(own, "// alike fills"):strings.Index(own, "// TestOwnStrategy")]
	if !strings.Contains(page, strings.TrimSpace(example)) {
		t.Error("docs/strategies.md shows other code than strategy_test.go")
	}
}
