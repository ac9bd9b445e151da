package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestQuiet(t *testing.T) {
	t.Parallel()
	broken := errors.New("no /proc")
	for name, c := range map[string]struct {
		loads []float64 // one after another; the last one stays
		busy  bool
		err   error
		want  float64
		says  string
		waits int
	}{
		"nothing runs":         {loads: []float64{0.2}, want: 0.2},
		"equal to the bound":   {loads: []float64{1}, want: 1},
		"falls after a build":  {loads: []float64{3, 1.01, 0.9}, want: 0.9, waits: 2},
		"stays":                {loads: []float64{3}, says: "3.00, want at most 1: end other programs, or give --busy", waits: quietTries},
		"busy":                 {loads: []float64{3}, busy: true, want: 3},
		"load cannot be read":  {loads: []float64{0}, err: broken, says: "no /proc"},
		"busy, cannot be read": {loads: []float64{0}, busy: true, err: broken, says: "no /proc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told strings.Builder
			calls := 0
			got, err := quiet(t.Context(), &told, c.busy, func() (float64, error) {
				calls++
				return c.loads[min(calls, len(c.loads))-1], c.err
			}, 0)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if got != c.want || strings.Count(told.String(), "waiting until") != c.waits {
				t.Errorf("load %v after %q, want %v after %d waits", got, told.String(), c.want, c.waits)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quiet(ctx, &strings.Builder{}, false, func() (float64, error) { return 9, nil }, quietPause); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that is stopped while it waits: %v", err)
	}
}
