package service

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// sayers answer with what people had said when an epoch began.
type sayers struct {
	byEpoch []discriminator.People
	asked   []feedback.Place
}

func (s *sayers) people(_ context.Context, p feedback.Place) (discriminator.People, error) {
	s.asked = append(s.asked, p)
	return s.byEpoch[p.Epoch], nil
}

// epochs runs a first epoch in which the guard decides, and two short ones. It goes on from a mark, behind so many
// batches.
func epochs(t *testing.T, core scorer, g guardSettings, state []byte, after int) []stagetest.Event {
	t.Helper()
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	s := must.Get(newFactory(core, pictures{loads: &loads}, g, keeping{}, gauges{}, instruments)(0, state))(t)
	var all []*schemas.Batch
	for epoch, batches := range []int32{decides + 2, 3, 3} {
		for n := range batches {
			b := batch(n, 2)
			b.Batches, b.Epoch = batches, int32(epoch)
			all = append(all, b)
		}
	}
	var out stagetest.Output
	for i, b := range all[after:] {
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(after+i), b), &out))
	}
	return out.Events
}

// What people say when an epoch begins may switch connections off, or on again. The record of its first batch says so,
// and a new owner that goes on from any mark writes the same.
func TestPeopleChangeTheVerdict(t *testing.T) {
	said := func(list ...int) (all []discriminator.People) {
		for i := 0; i < len(list); i += 2 {
			all = append(all, discriminator.People{Right: list[i], Judged: list[i+1]})
		}
		return all
	}
	for name, c := range map[string]struct {
		wrong  int
		people []discriminator.People
		on     [3]bool  // by epoch, when its first batch is scored; the last batch of the first
		says   [3]int32 // judgements in that batch's check; -1: it has none
	}{
		"nobody":               {0, said(0, 0, 0, 0, 0, 0), [3]bool{true, true, true}, [3]int32{-1, -1, -1}},
		"too few":              {0, said(0, 0, 0, 19, 19, 19), [3]bool{true, true, true}, [3]int32{-1, -1, -1}},
		"people find mistakes": {0, said(0, 0, 4, 40, 4, 40), [3]bool{true, false, false}, [3]int32{-1, 40, 40}},
		"and then fewer":       {0, said(0, 0, 4, 40, 100, 110), [3]bool{true, false, true}, [3]int32{-1, 40, 110}},
		"taken back":           {0, said(0, 0, 4, 40, 0, 0), [3]bool{true, false, true}, [3]int32{-1, 40, 0}},
		"people find none":     {3, said(0, 0, 38, 40, 38, 40), [3]bool{false, true, true}, [3]int32{0, 40, -1}},
		"before it decides":    {0, said(4, 40, 4, 40, 38, 40), [3]bool{false, false, true}, [3]int32{40, 40, 40}},
		"all is as it was":     {0, said(38, 40, 38, 40, 38, 40), [3]bool{true, true, true}, [3]int32{-1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := settingsOf(0.4, "m"), &sayers{byEpoch: c.people}
			g.people = s.people
			core := sorter{wrong: c.wrong}
			whole := epochs(t, core, g, nil, 0)
			for epoch, at := range []int{decides + 1, decides + 2, decides + 5} {
				b := scoredOf(t, whole[at])
				if on := b.M > 0; on != c.on[epoch] {
					t.Errorf("epoch %d: connections are on: %t, want %t: %v", epoch, on, c.on[epoch], b.Check)
				}
				judged := int32(-1)
				if b.Check != nil {
					judged = b.Check.Precision.Judged
				}
				if judged != c.says[epoch] {
					t.Errorf("epoch %d: the check says %d judgements, want %d", epoch, judged, c.says[epoch])
				}
				if later := scoredOf(t, whole[at+1]); epoch > 0 && (later.M > 0) != (b.M > 0) {
					t.Errorf("epoch %d: the second batch has %d candidates, the first %d", epoch, later.M, b.M)
				}
			}
			if want := (feedback.Place{Group: 4, Epoch: 2, Model: "m", Above: 0.8}); len(s.asked) != 3 || s.asked[2] != want {
				t.Errorf("people were asked at %+v, want once an epoch, at last %+v", s.asked, want)
			}
			for _, at := range []int{0, decides, decides + 1, decides + 2, decides + 3, decides + 5} {
				for i, e := range epochs(t, core, g, whole[at].Resume.State, at+1) {
					want := whole[at+1+i]
					a, err := schemas.Marshal(e.Record)
					b, err2 := schemas.Marshal(want.Record)
					if err != nil || err2 != nil || !bytes.Equal(a, b) || !bytes.Equal(e.Resume.State, want.Resume.State) {
						t.Fatalf("an owner from batch %d on writes batch %d otherwise (%v, %v)", at+1, at+1+i, err, err2)
					}
				}
			}
		})
	}
}

// A lane waits until it knows what people say.
func TestPeopleWhoCannotBeAskedAreWaitedFor(t *testing.T) {
	g, loads := settingsOf(0.4, "m"), 0
	g.people = func(context.Context, feedback.Place) (discriminator.People, error) {
		return discriminator.People{}, stream.Transient(errors.New("the log does not answer"))
	}
	instruments, _ := stagetest.Instruments(t, Name)
	s := must.Get(newFactory(sorter{}, pictures{loads: &loads}, g, keeping{}, gauges{}, instruments)(0, nil))(t)
	var out stagetest.Output
	if err := s.Process(t.Context(), stagetest.Record(t, schemas.Batches, 0, batch(0, 2)), &out); !errors.Is(err, stream.ErrTransient) || len(out.Events) > 0 {
		t.Errorf("error %v and %d records", err, len(out.Events))
	}
}

// surer confirms a candidate of every batch.
type surer struct{ sorter }

func (s surer) Known(ctx context.Context, b *schemas.Batch, in discriminator.Input, q discriminator.Questions, edits [][]int32) (discriminator.Known, error) {
	k, err := s.sorter.Known(ctx, b, in, q, edits)
	k.Asked = []discriminator.Asked{{Pair: model.Pair{Image: 0, Text: 2}, Probability: 0.9}, {Pair: model.Pair{Image: 1, Text: 0}, Probability: 0.8}}
	return k, err
}

// While connections are off and Con-D is measured, people can judge what it confirms. Later nobody asks it.
func TestRecordsSayWhatIsConfirmed(t *testing.T) {
	for name, wrong := range map[string]int{"on": 0, "off": 3} {
		for i, e := range epochs(t, surer{sorter{wrong: wrong}}, settingsOf(0.4, "m"), nil, 0) {
			b := scoredOf(t, e)
			var got *schemas.Confirmed
			if b.Check != nil {
				got = b.Check.Confirmed
			}
			want := b.M == 0 && i <= decides
			if (got != nil) != want {
				t.Fatalf("%s: batch %d says %v of what is confirmed", name, i, got)
			}
			if got != nil && (!slices.Equal(got.Image, schemas.Int32s{0}) || !slices.Equal(got.Text, schemas.Int32s{2}) || got.Probability[0] != 0.9) {
				t.Fatalf("%s: batch %d confirms %+v, want what is above 0.8", name, i, *got)
			}
		}
	}
}

// The gauges of a lane follow its guard, and go with the lane.
func TestGaugesOfTheGuard(t *testing.T) {
	instruments, rt := stagetest.Instruments(t, Name)
	shown := must.Get(newGauges(instruments))(t)
	loads := 0
	g := settingsOf(0.4, "m")
	g.people = func(_ context.Context, p feedback.Place) (discriminator.People, error) {
		return discriminator.People{Judged: 40, Right: 40 * int(1-p.Epoch)}, nil
	}
	s := must.Get(newFactory(sorter{}, pictures{loads: &loads}, g, keeping{}, shown, instruments)(7, nil))(t)
	check := func(state string, low float64) {
		t.Helper()
		for _, of := range []string{stateOn, stateOff, stateMeasuring} {
			want := 0.0
			if of == state {
				want = 1
			}
			if got := gauge(t, rt, "pairstream_discriminator_connections", of); got != want {
				t.Errorf("%s: %g, want %g", of, got, want)
			}
		}
		if got := gauge(t, rt, "pairstream_discriminator_precision_ratio", "low"); got < low {
			t.Errorf("lower end %g, want at least %g", got, low)
		}
	}
	var out stagetest.Output
	process := func(epoch, n int32) {
		b := batch(n, 2)
		b.Epoch, b.Batches = epoch, 1000
		b.Group.Lane = 7
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(len(out.Events)), b), &out))
	}
	process(0, 0)
	check(stateMeasuring, 0)
	for n := range int32(decides) {
		process(0, n+1)
	}
	check(stateOn, 0.4)
	process(1, 0)
	check(stateOff, 0)
	if got := stagetest.Metric(t, rt, "pairstream_discriminator_judged_connections"); got != 40 {
		t.Errorf("%g judgements, want 40", got)
	}
	must.Do(t, s.(interface{ Close() error }).Close())
	if got := stagetest.Metric(t, rt, "pairstream_discriminator_connections"); got != 0 {
		t.Errorf("the gauges of a lane stay that was given up: they add up to %g", got)
	}
}

// gauge returns the value of a gauge with a label.
func gauge(t *testing.T, rt service.Runtime, name, label string) float64 {
	t.Helper()
	families := must.Get(rt.Registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}
