package grouper

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// boxes is a store in memory.
type boxes map[int64][]byte

func (b boxes) Put(group int64, write func(io.Writer) error) error {
	var out bytes.Buffer
	err := write(&out)
	b[group] = out.Bytes()
	return err
}

func (b boxes) Get(group int64, read func(io.Reader) error) error {
	if state, ok := b[group]; ok {
		return read(bytes.NewReader(state))
	}
	return fmt.Errorf("group %d is not there", group)
}

func (b boxes) Clear() error {
	clear(b)
	return nil
}

// A window of one group gives what the order by groups gives, for every strategy.
func TestAWindowOfOneGroup(t *testing.T) {
	for name, o := range allOptions() {
		want := wire(t, drive(t, newTestLane(t, o), twoGroups()))
		o.EpochOrder, o.EpochGroups = OrderLane, 1
		if got := wire(t, drive(t, newTestLane(t, o), twoGroups())); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: a window of one group makes other records", name)
		}
	}
}

// Every epoch has every pair of the window's groups once. It comes before the next epoch of any of them, and replaces
// no more captions than the epoch before. A store changes nothing.
func TestAWindowOfThreeGroups(t *testing.T) {
	sizes := []int{40, 21, 33, 18, 27}
	fresh := func() *log {
		l := newLog()
		for seq, n := range sizes {
			g := l.addGroup(int64(seq), n, 2)
			g.Final = seq == len(sizes)-1
		}
		l.add(schemas.Groups, &schemas.Seal{Final: true})
		return l
	}
	for name, o := range allOptions() {
		t.Run(name, func(t *testing.T) {
			o.EpochOrder, o.EpochGroups = OrderLane, 3
			lane := newTestLane(t, o)
			out := drive(t, lane, fresh())
			if _, sealed := out[len(out)-1].(*schemas.Seal); !sealed || !lane.BetweenGroups() {
				t.Fatalf("the last record is %v, and the lane is between groups: %t", out[len(out)-1].Schema(), lane.BetweenGroups())
			}
			rest, left := batches(out), int64(0)
			for _, window := range [][]int{{0, 1, 2}, {3, 4}} {
				replaced := make([]int, len(sizes))
				for epoch := range o.Epochs {
					for _, seq := range window {
						n := o.batches(epoch, sizes[seq])
						checkEpoch(t, o, rest[:n], seq, epoch, sizes[seq])
						before := replaced[seq]
						replaced[seq] = 0
						for _, b := range rest[:n] {
							if b.Left > 0 && left > 0 && b.Left != left-1 {
								t.Errorf("%d batches are left after %d", b.Left, left)
							}
							left = b.Left
							for _, s := range b.Samples {
								if s.Replaced {
									replaced[seq]++
								}
							}
						}
						if o.Texts == TextCurriculum && (epoch > 0 && replaced[seq] > before || seq > 2 && replaced[seq] > 0) {
							t.Errorf("epoch %d of group %d replaces %d captions, the one before %d", epoch, seq, replaced[seq], before)
						}
						rest = rest[n:]
					}
				}
			}
			if len(rest) > 0 || left != 1 {
				t.Errorf("%d batches too many, and %d left after the last", len(rest), left-1)
			}
			stored, store := newTestLane(t, o), boxes{}
			stored.KeepIn(store)
			if got := wire(t, drive(t, stored, fresh())); !slices.EqualFunc(got, wire(t, out), bytes.Equal) || len(store) > 0 {
				t.Errorf("with a store the records differ, or %d groups stay in it", len(store))
			}
		})
	}
}

// A group that is set aside leaves the others of its window.
func TestAGroupOfAWindowIsSetAside(t *testing.T) {
	o := testOptions(StrategyGRIT)
	o.EpochOrder, o.EpochGroups = OrderLane, 2
	l := newLog()
	l.addGroup(0, 16, 1)
	l.addGroup(1, 16, 1).Digest[0] ^= 1
	l.addGroup(2, 16, 1)
	l.add(schemas.Groups, &schemas.Seal{Final: true})
	lane := newTestLane(t, o)
	var out []schemas.Record
	for asides := 0; ; {
		topic := lane.Needs()
		if l.next[topic] == len(l.records[topic]) {
			if asides != 1 {
				t.Errorf("%d groups were set aside", asides)
			}
			break
		}
		seq := l.next[topic]
		l.next[topic]++
		err := lane.Add(t.Context(), l.input(topic, seq), func(r schemas.Record) error {
			if b, ok := r.(*schemas.Batch); ok {
				l.add(schemas.Features, train(b))
			}
			out = append(out, r)
			return nil
		})
		if err != nil {
			asides++
		}
	}
	order := ""
	for _, b := range batches(out) {
		if b.Sequence == 0 {
			order += fmt.Sprintf("%d.%d ", b.Epoch, b.Group.Seq)
		}
	}
	if order != "0.0 0.2 1.0 1.2 2.0 2.2 3.0 3.2 " || !lane.BetweenGroups() || len(batches(out)) != 16 {
		t.Errorf("epochs and groups come as %s, in %d batches", order, len(batches(out)))
	}
}
