package torch_test

import (
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
