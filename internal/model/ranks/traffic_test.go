package ranks

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// summed adds up one part of each rank, and returns what each gets.
func summed(t *testing.T, leader *Leader, members []*Member, parts []Part) []Part {
	t.Helper()
	got, errs := make([]Part, len(parts)), make([]error, len(parts))
	var summing sync.WaitGroup
	for rank := 1; rank < len(parts); rank++ {
		summing.Go(func() { got[rank], errs[rank] = members[rank].Sum(t.Context(), parts[rank]) })
	}
	got[0], errs[0] = leader.Sum(t.Context(), parts[0], func([][]byte) ([]byte, error) { return nil, nil })
	summing.Wait()
	must.Do(t, errors.Join(errs...))
	return got
}

// Every rank sends and receives 2 (R - 1) / R of the gradient, rank 0 as well. What says who has which vectors, and the
// headers of frames, come to less than a hundredth.
func TestTrafficOfARank(t *testing.T) {
	const values = 24 << 14
	for _, world := range []int{2, 3, 4, 8} {
		leader, members := gather(t, world, unchanged)
		members[0] = &Member{leader.group}
		parts := make([]Part, world)
		for rank := range parts {
			parts[rank] = Part{Vectors: [][]float32{make([]float32, values/3), make([]float32, values-values/3)}}
			parts[rank].Vectors[1][7] = float32(rank)
		}
		sent, received := make([]int64, world), make([]int64, world)
		for rank, m := range members {
			sent[rank], received[rank] = m.Traffic()
		}
		for rank, p := range summed(t, leader, members, parts) {
			if p.Vectors[1][7] != float32(world*(world-1)/2) {
				t.Errorf("%d ranks: rank %d has the sum %g", world, rank, p.Vectors[1][7])
			}
		}
		want := int64(2 * (world - 1) * 4 * values / world)
		for rank, m := range members {
			s, r := m.Traffic()
			for what, n := range map[string]int64{"sent": s - sent[rank], "received": r - received[rank]} {
				if n < want || n > want+want/100 {
					t.Errorf("%d ranks: rank %d has %s %d bytes, want %d and at most a hundredth more", world, rank, what, n, want)
				}
			}
		}
	}
}

// One rank has nobody to exchange with: its vectors are the sum.
func TestOneRankSendsNothing(t *testing.T) {
	g := newGroup(0, []*link{nil}, slog.New(slog.DiscardHandler))
	p, err := (&Leader{g}).Sum(t.Context(), Part{Vectors: [][]float32{{1, 2}, nil}}, func([][]byte) ([]byte, error) { return nil, nil })
	if err != nil || !slices.Equal(p.Vectors[0], []float32{1, 2}) || p.Vectors[1] != nil {
		t.Errorf("%v, %v", p, err)
	}
	if sent, received := g.Traffic(); sent != 0 || received != 0 {
		t.Errorf("it has sent %d bytes and received %d", sent, received)
	}
}

// The slices of all owners hold each value once, in chunks of limited size, and no slice has two values more than
// another.
func TestSlicesCoverAllValues(t *testing.T) {
	for _, lengths := range [][]int{{}, {-1}, {0, 1, 0}, {3, -1, 5}, {chunkFloats, 1, 2 * chunkFloats}, {1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		for _, world := range []int{1, 2, 3, 8} {
			checkSlices(t, Plan{World: world, Lengths: lengths})
		}
	}
}

func checkSlices(t *testing.T, p Plan) {
	t.Helper()
	at := make([]int, len(p.Lengths)) // values of each vector that were seen
	fewest, most := p.Total(), 0
	for owner := range p.World {
		size := 0
		for _, c := range p.slice(owner) {
			n := c.size()
			if size += n; n == 0 || n > chunkFloats {
				t.Errorf("%+v: a chunk of rank %d has %d values", p, owner, n)
			}
			for _, s := range c {
				if s.from != at[s.vector] || s.to <= s.from || s.to > p.Lengths[s.vector] {
					t.Fatalf("%+v: rank %d owns %+v behind %d", p, owner, s, at[s.vector])
				}
				at[s.vector] = s.to
			}
		}
		fewest, most = min(fewest, size), max(most, size)
	}
	if most-fewest > 1 {
		t.Errorf("%+v: ranks own %d to %d values", p, fewest, most)
	}
	for i, n := range p.Lengths {
		if at[i] != max(n, 0) {
			t.Errorf("%+v: %d values of vector %d are owned", p, at[i], i)
		}
	}
}
