//go:build cgo

package main

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestOperator plays random sequences of what operators do against the five services, with small models, on a broker of
// its own for each. Afterwards every published pair was trained on as often as EPOCHS said, or is in a record that says
// why not. And nobody waits without a word. A failing sequence is shrunk.
func TestOperator(t *testing.T) {
	sequences := soak.Choose(50, 1_000_000)
	if sequences == 50 && apart(t) { // the long form shows how far it is
		return
	}
	playOperators(t, "embedded", sequences, func() (string, func() error, error) {
		broker, err := broker.Start(broker.Options{})
		if err != nil {
			return "", nil, err
		}
		return broker.Addr(), broker.Close, nil
	})
}

// soakTime bounds the long form, which has more sequences than fit in.
const soakTime = time.Hour

// seedStep leads to the seed of the next 50 sequences. rapid counts up from a seed, by 1,225 in 50 sequences: a smaller
// step would play most of them again.
const seedStep = 1 << 20

// playOperators plays sequences on brokers that open starts.
func playOperators(t *testing.T, kind string, sequences int, open func() (string, func() error, error)) {
	site := newSite(t)
	set := func(name, value string) {
		t.Helper()
		must.Do(t, flag.Set(name, value))
	}
	set("rapid.shrinktime", "1m")
	set("rapid.nofailfile", "true")
	sum := &tally{actions: make(map[string]int)}
	began := time.Now()
	defer func() { sum.record(t, kind, time.Since(began)) }()
	end := began.Add(soakTime)
	if deadline, ok := t.Deadline(); ok && deadline.Before(end) {
		end = deadline.Add(-time.Minute)
	}
	check := func(checks int) {
		set("rapid.checks", strconv.Itoa(checks))
		rapid.Check(t, func(rt *rapid.T) {
			brokers, closeBroker := must.Get2(open())(rt)
			w := newWorld(t, rt, site, brokers, sum)
			defer func() {
				w.leave()
				must.Check(rt, closeBroker())
			}()
			w.play(rapid.SliceOfN(rapid.Custom(drawAction), 2, 12).Draw(rt, "actions"))
		})
	}
	for seed := soak.Seed(t, 1); !t.Failed(); seed += seedStep {
		set("rapid.seed", strconv.FormatUint(seed, 10))
		check(soak.Choose(sequences, 50))
		if sum.sequences >= sequences || time.Now().After(end) {
			break
		}
	}
}

// tally counts what was played.
type tally struct {
	sequences, records, pairs, trained, aside, givenUp int
	actions                                            map[string]int
}

// record writes the figures down, those of a run that has failed as well.
func (s *tally) record(t *testing.T, kind string, took time.Duration) {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(s.actions)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, s.actions[k]))
	}
	figures.Record(t, figures.Figures{
		Scenario: fmt.Sprintf("%d sequences of operators' actions", s.sequences), Broker: kind, Faults: s.total(), Records: s.records,
		Note: fmt.Sprintf("%d pairs, %d samples trained on, %d set aside, %d namespaces given up with a reason; %.0f s; %s", s.pairs, s.trained, s.aside, s.givenUp, took.Seconds(), strings.Join(kinds, ", ")),
	})
}

func (s *tally) total() (n int) {
	for _, k := range s.actions {
		n += k
	}
	return n
}

// action is one thing that an operator does. A and B choose among what there is.
type action struct {
	Kind string
	A, B int
}

// drawnValues is how many values A and B have each.
const drawnValues = 12

func drawAction(rt *rapid.T) action {
	return action{
		Kind: rapid.SampledFrom(kindsOfActions()).Draw(rt, "kind"),
		A:    rapid.IntRange(0, drawnValues-1).Draw(rt, "a"),
		B:    rapid.IntRange(0, drawnValues-1).Draw(rt, "b"),
	}
}
