package service

import (
	"io"
	"log/slog"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/service"
)

// The fill of a lane's group is reported from the moment that the lane is owned, before the first pair, until it is given
// up.
func TestFillIsReportedForOwnedLanes(t *testing.T) {
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	instruments, err := rt.NewInstruments(Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := newFill(8)
	if err := instruments.Register(full.ratio); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...float64) {
		t.Helper()
		families, err := rt.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, f := range families {
			if f.GetName() == "pairstream_indexer_group_fill_ratio" {
				for _, m := range f.GetMetric() {
					got = append(got, m.GetGauge().GetValue())
				}
			}
		}
		if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("fill is %v, want %v", got, want)
		}
	}
	expect()
	o := indexer.DefaultOptions()
	o.GroupSize = 8
	s, err := newFactory(o, nil, nil, nil, nil, nil, nil, instruments, full, newRepeated())(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(0)
	full.set(3, 2)
	expect(0.25)
	if err := s.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	expect()
}
