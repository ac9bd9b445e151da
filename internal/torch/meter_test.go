package torch_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/torch"
)

func TestMeterCountsOnlyItsOwnJobs(t *testing.T) {
	w, err := torch.NewWorker(torch.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	product := func(s *torch.Scope) error {
		x := s.Zeros(torch.Float32, 256, 256)
		s.MatMul(x, x)
		return nil
	}
	var mine, others torch.Meter
	if err := w.Do(torch.WithMeter(t.Context(), &mine), product); err != nil {
		t.Fatal(err)
	}
	before := mine.Busy()
	if err := w.Do(torch.WithMeter(t.Context(), &others), product); err != nil {
		t.Fatal(err)
	}
	if before <= 0 || others.Busy() <= 0 {
		t.Errorf("busy for %v and %v, want both above 0", before, others.Busy())
	}
	if after := mine.Busy(); after != before {
		t.Errorf("a job of another meter raised ours from %v to %v", before, after)
	}
}

// A job has the labels of its context while it runs, and no others.
func TestJobsHaveTheLabelsOfTheirContext(t *testing.T) {
	w, err := torch.NewWorker(torch.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	labels := func(ctx context.Context) (mine, others bool) {
		t.Helper()
		var seen bytes.Buffer
		err := w.Do(ctx, func(*torch.Scope) error { return pprof.Lookup("goroutine").WriteTo(&seen, 1) })
		if err != nil {
			t.Fatal(err)
		}
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
