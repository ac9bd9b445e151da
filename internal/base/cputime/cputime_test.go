package cputime

import (
	"context"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

var sink uint64

// work takes some hundredths of a second.
func work() {
	x := sink
	for i := range uint64(100_000_000) {
		x = x*6364136223846793005 + i
	}
	sink = x
}

// Each part has what its goroutines do, and what those do that they start.
func TestPartsOfAProcess(t *testing.T) {
	r := must.Get(Start())(t)
	if _, err := Start(); err == nil {
		t.Error("two counts at once")
	}
	var all sync.WaitGroup
	all.Go(func() {
		As(context.Background(), "child")
		var inner sync.WaitGroup
		inner.Go(work)
		inner.Wait()
	})
	all.Wait()
	all.Go(func() {
		As(context.Background(), "idle")
		Do(context.Background(), "within", work)
	})
	all.Wait()
	all.Go(work)
	all.Wait()
	spent, err := r.Stop()
	if err != nil || spent["child"] <= 0 || spent["within"] <= 0 || spent[""] <= 0 || spent["idle"] != 0 {
		t.Errorf("spent %v (%v), want time of the child, of what is within idle, and of nobody", spent, err)
	}
}
