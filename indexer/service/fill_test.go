package service

import (
	"io"
	"log/slog"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The fill of a lane's group is reported from the moment that the lane is owned, before the first pair, until it is
// given up.
func TestFillIsReportedForOwnedLanes(t *testing.T) {
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	instruments := must.Get(rt.NewInstruments(Name, nil))(t)
	full := newFill(8)
	must.Do(t, instruments.Register(full.ratio))
	expect := func(want ...float64) {
		t.Helper()
		families := must.Get(rt.Registry.Gather())(t)
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
	s := must.Get(newFactory(o, nil, nil, nil, nil, nil, nil, instruments, full, newRepeated())(3, nil))(t)
	expect(0)
	full.set(3, 2)
	expect(0.25)
	must.Do(t, s.(io.Closer).Close())
	expect()
}
