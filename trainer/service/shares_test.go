package service

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The share of a rank is added up with its last batch, before rank 0 asks for it, and the earlier batches start
// nothing.
func TestTheShareLeavesWithTheLastBatch(t *testing.T) {
	o := ofFour()
	core := newCore(t, firstWeights(t), nil, o)
	var added atomic.Int64
	s := shares{core: core, slots: slots{0, 2, 4}, sum: func(_ context.Context, own ranks.Part, _ joinFunc) (ranks.Part, error) {
		added.Add(1)
		return own, nil
	}}
	for n, flows := range []bool{false, true} {
		must.Get(s.learn(t.Context(), threeSamples(n), drawn(threeSamples(n)), n))(t)
		if (s.flow != nil) != flows {
			t.Errorf("behind batch %d the share leaves: %t", n, s.flow != nil)
		}
	}
	if s.flow == nil {
		return
	}
	got, err := s.flow.wait()
	if err != nil || added.Load() != int64(len(core.Runs())) || len(got) != len(core.Model().Params()) {
		t.Errorf("%d of %d runs are added, of %d parameters, %v", added.Load(), len(core.Runs()), len(got), err)
	}
}

// Runs are added one after the other, as they come. A run that fails, or an end of the training, ends a flow.
func TestFlow(t *testing.T) {
	runs := [][]int{{2, 0}, {1}}
	came := make(chan []float32)
	double := func(_ context.Context, own ranks.Part, _ joinFunc) (ranks.Part, error) {
		for i, v := range own.Vectors {
			came <- v
			own.Vectors[i] = append(v, v...)
		}
		return own, nil
	}
	f := newFlow(t.Context(), runs, double)
	f.give(0, [][]float32{{3}, nil})
	if first := <-came; !reflect.DeepEqual(first, []float32{3}) { // although the second run is not there
		t.Errorf("%v is added first", first)
	}
	<-came
	f.give(1, [][]float32{{2}})
	<-came
	if got, err := f.wait(); err != nil || !reflect.DeepEqual(got, [][]float32{nil, {2, 2}, {3, 3}}) {
		t.Errorf("%v, %v", got, err)
	}

	f = newFlow(t.Context(), runs, func(context.Context, ranks.Part, joinFunc) (ranks.Part, error) { return ranks.Part{}, ranks.ErrLost })
	f.give(0, [][]float32{{3}, nil})
	f.give(1, [][]float32{{2}}) // a pass that goes on does not wait
	if _, err := f.wait(); !errors.Is(err, ranks.ErrLost) {
		t.Errorf("%v", err)
	}
	over, end := context.WithCancel(t.Context())
	f = newFlow(over, runs, double)
	end()
	if _, err := f.wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
