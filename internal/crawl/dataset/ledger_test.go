package dataset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

var errDead = errors.New("the producer was killed")

// ledger is a log in memory. What was sent is not in it before it is acknowledged.
type ledger struct {
	lanes [][]dataset.Message
	sent  []dataset.Message // by all producers
	queue []dataset.Message // not acknowledged
	notes map[string]dataset.SourceNote
	topic string
	calls int
	die   int // all calls fail after this many; negative: never
}

func newLedger(lanes int) *ledger {
	return &ledger{lanes: make([][]dataset.Message, lanes), notes: map[string]dataset.SourceNote{}, die: -1}
}

func (l *ledger) call() error {
	if l.calls++; l.die >= 0 && l.calls > l.die {
		return errDead
	}
	return nil
}

// restart forgets some of what was not acknowledged, at the end of each lane, and lets a new producer in.
func (l *ledger) restart(r *rand.Rand) {
	arrived := make([]int, len(l.lanes))
	for lane := range arrived {
		arrived[lane] = r.IntN(len(l.queue) + 1)
	}
	for _, m := range l.queue {
		if arrived[m.Lane]--; arrived[m.Lane] >= 0 {
			l.lanes[m.Lane] = append(l.lanes[m.Lane], m)
		}
	}
	l.queue, l.die = nil, -1
}

func (l *ledger) Sources(context.Context) (map[string]dataset.SourceNote, error) {
	return maps.Clone(l.notes), l.call()
}

// Note dies between any two notes.
func (l *ledger) Note(_ context.Context, notes []dataset.SourceNote) error {
	if err := l.call(); err != nil {
		return err
	}
	for _, m := range l.queue {
		l.lanes[m.Lane] = append(l.lanes[m.Lane], m)
	}
	l.queue = nil
	for _, n := range notes {
		if err := l.call(); err != nil {
			return err
		}
		l.notes[n.URI] = n
	}
	return nil
}

func (l *ledger) Publish(_ context.Context, m dataset.Message) error {
	if err := l.call(); err != nil {
		return err
	}
	l.sent, l.queue = append(l.sent, m), append(l.queue, m)
	return nil
}

func (l *ledger) Ends(context.Context) ([]int64, error) {
	var ends []int64
	for _, lane := range l.lanes {
		ends = append(ends, int64(len(lane)))
	}
	return ends, l.call()
}

func (l *ledger) Topic(context.Context) (string, error) { return l.topic, l.call() }

func (l *ledger) Behind(_ context.Context, from []int64, each func([]byte)) error {
	for lane, messages := range l.lanes {
		for _, m := range messages[from[lane]:] {
			each(m.Value)
		}
	}
	return l.call()
}

func (l *ledger) Ended(context.Context) (map[int]*schemas.Seal, error) {
	ended := map[int]*schemas.Seal{}
	for lane, messages := range l.lanes {
		if len(messages) == 0 {
			continue
		}
		last := messages[len(messages)-1]
		if r, err := schemas.Unmarshal(last.Schema, last.Value); err == nil {
			if s, ok := r.(*schemas.Seal); ok && s.Final {
				ended[lane] = s
			}
		}
	}
	return ended, l.call()
}

// values returns what the lanes hold, as text.
func (l *ledger) values() string {
	var b strings.Builder
	for lane, messages := range l.lanes {
		for _, m := range messages {
			fmt.Fprintf(&b, "%d %s %x\n", lane, m.Schema, m.Value)
		}
	}
	return b.String()
}

// difference says which messages are not where they are in another log, by number in their lane.
func difference(got, want *ledger) string {
	var b strings.Builder
	for lane := range want.lanes {
		place := map[string]int{}
		for i, m := range want.lanes[lane] {
			place[string(m.Value)] = i
		}
		var order []int
		for _, m := range got.lanes[lane] {
			at, ok := place[string(m.Value)]
			if !ok {
				at = -1
			}
			order = append(order, at)
		}
		fmt.Fprintf(&b, "lane %d has %v of %d; ", lane, order, len(want.lanes[lane]))
	}
	return b.String()
}

func produce(l *ledger, o dataset.ProduceOptions, paths ...string) (dataset.Summary, error) {
	o.Lanes = len(l.lanes)
	sum, _, err := dataset.Produce(context.Background(), paths, o, l)
	return sum, err
}

// TestProducerKilledAnywhere kills the producer before each of its calls, and its successor at random. The lanes are
// those of an undisturbed run, in order.
func TestProducerKilledAnywhere(t *testing.T) {
	dir := crawl(t)
	for name, o := range map[string]dataset.ProduceOptions{
		"in order": {Final: true}, "shuffled": {Buffer: 40, Seed: 3, Final: true}, "shuffled three by three": {Buffer: 3, Seed: 4},
		"held out": {HeldOut: 5, Buffer: 7, Final: true},
	} {
		t.Run(name, func(t *testing.T) {
			calm := newLedger(3)
			must.Get(produce(calm, o, dir))(t)
			r := rand.New(rand.NewPCG(1, 2))
			for die := range calm.calls {
				l := newLedger(3)
				l.die = die
				if _, err := produce(l, o, dir); !errors.Is(err, errDead) {
					t.Fatalf("killed before call %d: %v", die, err)
				}
				l.restart(r)
				l.die = l.calls + r.IntN(calm.calls)
				if _, err := produce(l, o, dir); err != nil && !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				l.restart(r)
				if _, err := produce(l, o, dir); err != nil {
					t.Fatalf("killed before call %d, and once more: %v", die, err)
				}
				if l.values() != calm.values() {
					t.Fatalf("killed before call %d: %s", die, difference(l, calm))
				}
			}
		})
	}
}

func TestShuffleMovesPairs(t *testing.T) {
	dir := crawl(t)
	texts := func(seed uint64, buffer int) (out []string) {
		l := newLedger(1)
		must.Get(produce(l, dataset.ProduceOptions{Buffer: buffer, Seed: seed}, dir))(t)
		for _, m := range l.lanes[0] {
			out = append(out, string(m.Value))
		}
		return out
	}
	plain, one, again, two := texts(0, 0), texts(1, 1000), texts(1, 1000), texts(2, 1000)
	if !slices.Equal(one, again) {
		t.Error("the same seed gave another order")
	}
	for name, other := range map[string][]string{"plain": plain, "another seed": two} {
		same := 0
		for i := range one {
			if one[i] == other[i] {
				same++
			}
		}
		if same > len(one)/4 {
			t.Errorf("%s: %d of %d messages are in the same place", name, same, len(one))
		}
		if !slices.Equal(slices.Sorted(slices.Values(one)), slices.Sorted(slices.Values(other))) {
			t.Errorf("%s: other messages", name)
		}
	}
}

// TestProduceAgain publishes what is new or has changed, and nothing else.
func TestProduceAgain(t *testing.T) {
	dir := crawl(t)
	l := newLedger(2)
	first := must.Get(produce(l, dataset.ProduceOptions{}, dir))(t)
	step := func(what string, o dataset.ProduceOptions, messages, done, changed int, paths ...string) {
		t.Helper()
		sum, err := produce(l, o, append(paths, dir)...)
		if err != nil || sum.Messages != messages || sum.Done != done || len(sum.Changed) != changed {
			t.Errorf("%s: %+v, %v; want %d messages, %d done, %d changed", what, sum, err, messages, done, changed)
		}
	}
	step("the same", dataset.ProduceOptions{}, 0, 3, 0)
	tar := filepath.Join(dir, "00001.tar")
	later := time.Now().Add(time.Hour)
	must.Do(t, os.Chtimes(tar, later, later))
	step("touched", dataset.ProduceOptions{}, 0, 2, 0)
	step("after that", dataset.ProduceOptions{}, 0, 3, 0)
	step("named twice", dataset.ProduceOptions{}, 0, 3, 0, tar)
	raw := must.Get(os.ReadFile(tar))(t)
	must.Do(t, os.WriteFile(tar, bytes.Replace(raw, []byte("no image 1"), []byte("no image X"), 1), 0o600))
	step("changed", dataset.ProduceOptions{}, 34, 2, 1)
	one := must.Get(os.ReadFile(filepath.Join(dir, "00000.tar")))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "00003.tar"), one, 0o600))
	step("a fourth tar", dataset.ProduceOptions{}, 33, 3, 0)
	step("anew", dataset.ProduceOptions{Anew: true}, first.Messages+33, 0, 0)
	must.Do(t, os.Symlink("nowhere", filepath.Join(dir, "00004.tar")))
	step("a link to nowhere", dataset.ProduceOptions{}, 1, 4, 0)
	step("a link to nowhere again", dataset.ProduceOptions{}, 0, 4, 0)
	if _, err := produce(l, dataset.ProduceOptions{HeldOut: 2}, dir); err == nil || !strings.Contains(err.Error(), "held out") {
		t.Errorf("other images held out: %v", err)
	}
}

// TestNotesOfPairsThatAreGone publishes tars, and takes their pairs away. A producer does not take them for published.
func TestNotesOfPairsThatAreGone(t *testing.T) {
	dir := crawl(t)
	for name, c := range map[string]struct {
		die    int // the first producer dies at this call; 0: not
		lose   func(*ledger)
		refuse string
	}{
		"nothing is gone":           {lose: func(*ledger) {}},
		"a topic without ids":       {lose: func(l *ledger) { l.topic = "" }},
		"a lane is cut":             {lose: func(l *ledger) { l.lanes[1] = l.lanes[1][:len(l.lanes[1])/2] }, refuse: "lane 1 of the topic pairs had"},
		"one record is missing":     {lose: func(l *ledger) { l.lanes[2] = l.lanes[2][:len(l.lanes[2])-1] }, refuse: "lane 2 of the topic pairs had"},
		"made anew":                 {lose: func(l *ledger) { l.lanes, l.topic = make([][]dataset.Message, 3), "new" }, refuse: "it was recreated"},
		"made anew, without ids":    {lose: func(l *ledger) { l.lanes = make([][]dataset.Message, 3); l.topic = "" }, refuse: "recreated or has lost records"},
		"made anew and filled":      {lose: func(l *ledger) { l.topic = "new" }, refuse: "it was recreated"},
		"cut short, then made anew": {die: 12, lose: func(l *ledger) { l.lanes, l.topic = make([][]dataset.Message, 3), "new" }, refuse: "it was recreated"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(3)
			l.topic = "old"
			if c.die > 0 {
				l.die = c.die
			}
			o := dataset.ProduceOptions{Buffer: 8, Seed: 1}
			first, err := produce(l, o, dir)
			if c.die == 0 {
				must.Do(t, err)
			}
			l.die = -1
			c.lose(l)
			_, err = produce(l, o, dir)
			if c.refuse == "" {
				must.Do(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refuse) || !strings.Contains(err.Error(), "--resume=false") {
				t.Fatalf("got %v, want that %q, and what to do", err, c.refuse)
			}
			o.Anew = true
			again := must.Get(produce(l, o, dir))(t)
			if c.die == 0 && again.Pairs != first.Pairs {
				t.Errorf("%d pairs were published again, want %d", again.Pairs, first.Pairs)
			}
			o.Anew = false
			must.Get(produce(l, o, dir))(t)
		})
	}
}

// TestNothingBehindAFinalSeal refuses what would be set aside, and lets a run repeat that was cut short.
func TestNothingBehindAFinalSeal(t *testing.T) {
	dir, other := crawl(t), crawl(t)
	final := dataset.ProduceOptions{Final: true}
	l := newLedger(2)
	must.Get(produce(l, final, dir))(t)
	whole := l.values()
	for name, c := range map[string]struct {
		o      dataset.ProduceOptions
		dir    string
		refuse bool
	}{
		"the same run": {final, dir, false}, "the same pairs": {dataset.ProduceOptions{}, dir, false},
		"other pairs": {dataset.ProduceOptions{}, other, true}, "other pairs and a seal": {final, other, true},
		"anew": {dataset.ProduceOptions{Anew: true}, dir, true},
	} {
		_, err := produce(l, c.o, c.dir)
		if (err != nil) != c.refuse || c.refuse && !strings.Contains(err.Error(), "final seal") {
			t.Errorf("%s: %v", name, err)
		}
		if l.values() != whole {
			t.Errorf("%s: the lanes have changed", name)
		}
	}
	l = newLedger(2)
	seal := must.Get(schemas.Marshal(&schemas.Seal{Final: true, ID: "another"}))(t)
	must.Get(produce(l, dataset.ProduceOptions{}, dir))(t)
	l.lanes[1] = append(l.lanes[1], dataset.Message{Lane: 1, Schema: schemas.SchemaSeal, Value: seal})
	if _, err := produce(l, final, dir); err == nil || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("sealed by another: %v", err)
	}
}

// TestLostTarReadLater publishes a tar that could not be read at first.
func TestLostTarReadLater(t *testing.T) {
	dir := crawl(t)
	tar := filepath.Join(dir, "00001.tar")
	away := filepath.Join(t.TempDir(), "00001.tar")
	must.Do(t, errors.Join(os.Rename(tar, away), os.Symlink(away+"x", tar)))
	l := newLedger(1)
	sum, err := produce(l, dataset.ProduceOptions{}, dir)
	if err != nil || sum.Scan.Problems[shard.ReasonFile] != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	must.Do(t, errors.Join(os.Remove(tar), os.Rename(away, tar)))
	if sum, err = produce(l, dataset.ProduceOptions{}, dir); err != nil || sum.Messages != 34 || sum.Done != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
}
