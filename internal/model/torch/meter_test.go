package torch_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestMeterCountsOnlyItsOwnJobs(t *testing.T) {
	w := must.Get(torch.NewWorker(torch.WorkerOptions{}))(t)
	defer w.Close()
	product := func(s *torch.Scope) error {
		x := s.Zeros(torch.Float32, 256, 256)
		s.MatMul(x, x)
		return nil
	}
	var mine, others torch.Meter
	must.Do(t, w.Do(torch.WithMeter(t.Context(), &mine), product))
	before := mine.Busy()
	must.Do(t, w.Do(torch.WithMeter(t.Context(), &others), product))
	if before <= 0 || others.Busy() <= 0 {
		t.Errorf("busy for %v and %v, want both above 0", before, others.Busy())
	}
	if after := mine.Busy(); after != before {
		t.Errorf("a job of another meter raised ours from %v to %v", before, after)
	}
}

// A job has the labels of its context while it runs, and no others.
func TestJobsHaveTheLabelsOfTheirContext(t *testing.T) {
	w := must.Get(torch.NewWorker(torch.WorkerOptions{}))(t)
	defer w.Close()
	labels := func(ctx context.Context) (mine, others bool) {
		t.Helper()
		var seen bytes.Buffer
		must.Do(t, w.Do(ctx, func(*torch.Scope) error { return pprof.Lookup("goroutine").WriteTo(&seen, 1) }))
		return strings.Contains(seen.String(), `"meter-test":"mine"`), strings.Contains(seen.String(), `"meter-test":"another"`)
	}
	for range 2 {
		if mine, others := labels(pprof.WithLabels(t.Context(), pprof.Labels("meter-test", "mine"))); !mine || others {
			t.Error("a job has other labels than its context")
		}
		if mine, others := labels(pprof.WithLabels(t.Context(), pprof.Labels("meter-test", "another"))); mine || !others {
			t.Error("the next job has other labels than its context")
		}
		if mine, others := labels(t.Context()); mine || others {
			t.Error("a job without labels has those of an earlier one")
		}
	}
}
