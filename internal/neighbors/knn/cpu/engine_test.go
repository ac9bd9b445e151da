package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	processor "golang.org/x/sys/cpu"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// eachInstructionSet runs a test with every instruction set of this processor.
func eachInstructionSet(t *testing.T, run func(t *testing.T)) {
	t.Cleanup(func() { must.Check(t, cpu.UseInstructions("")) })
	x86 := processor.X86
	for _, set := range []struct {
		name  string
		there bool
	}{
		{"portable", true},
		{"avx2", x86.HasAVX2 && x86.HasFMA},
		{"avx512", x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512VL && x86.HasAVX512DQ && x86.HasAVX512VNNI},
	} {
		if !set.there {
			t.Logf("%s is not tested: the processor lacks it", set.name)
			continue
		}
		t.Run(set.name, func(t *testing.T) {
			must.Do(t, cpu.UseInstructions(set.name))
			run(t)
		})
	}
}

func TestNeighborsAreTheReferences(t *testing.T) {
	all := knntest.Groups()
	want := make([]knn.Result, len(all))
	for i, g := range all {
		var err error
		if want[i], err = (reference.Engine{}).Neighbors(context.Background(), g.V, g.T, g.P); err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
	}
	eachInstructionSet(t, func(t *testing.T) {
		for i, g := range all {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%d threads", g.Name, threads), func(t *testing.T) {
					before := cpu.Live()
					g.P.Threads = threads
					got := must.Get((cpu.Engine{}).Neighbors(context.Background(), g.V, g.T, g.P))(t)
					same(t, "v2t", got.V2T, want[i].V2T, g.P.K)
					same(t, "v2v", got.V2V, want[i].V2V, g.P.K1)
					same(t, "se", got.SE, want[i].SE, g.P.K1)
					if after := cpu.Live(); after != before {
						t.Errorf("%d handles live after, %d before", after, before)
					}
				})
			}
		}
	})
}

func same(t *testing.T, what string, got, want []int32, width int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			row := i / width
			t.Fatalf("%s of %d: got %v, want %v", what, row, got[row*width:(row+1)*width], want[row*width:(row+1)*width])
		}
	}
}

// TestNeighborsAcrossBlocks has several blocks, so that tiles off the diagonal, locks and both sides of V V^T are at
// work; the reference would take minutes, so the oracle is one thread with plain instructions.
func TestNeighborsAcrossBlocks(t *testing.T) {
	const n, dim = 4500, 20
	r := rng.New(2, "blocks")
	v, texts := knntest.UnitRows(r, n, dim, 40, 0.6), knntest.UnitRows(r, n, dim, 40, 0.6)
	for i := 2000 * dim; i < 2300*dim; i++ { // equal rows on both sides of a block's edge
		v[i] = v[2000*dim+i%dim]
	}
	g := knntest.Group{V: knntest.Halves(v, dim), T: knntest.Halves(texts, dim), P: knn.Params{K: 10, K1: 5, K2: 300}}
	rows := sampleRows(n)
	want := oracleRows(t, g, rows)
	eachInstructionSet(t, func(t *testing.T) {
		for _, threads := range []int{1, 4} {
			g.P.Threads = threads
			got := must.Get((cpu.Engine{}).Neighbors(context.Background(), g.V, g.T, g.P))(t)
			for i, row := range rows {
				same(t, fmt.Sprintf("v2t of %d", row), got.V2T[row*10:(row+1)*10], want.V2T[i*10:(i+1)*10], 10)
				same(t, fmt.Sprintf("v2v of %d", row), got.V2V[row*5:(row+1)*5], want.V2V[i*5:(i+1)*5], 5)
				same(t, fmt.Sprintf("se of %d", row), got.SE[row*5:(row+1)*5], want.SE[i*5:(i+1)*5], 5)
			}
		}
	})
}

// sampleRows returns rows at the edges of blocks and some in between.
func sampleRows(n int) []int {
	rows := []int{0, 1, 2047, 2048, 2049, 4095, 4096, n - 1}
	for i := 13; i < n; i += 97 {
		rows = append(rows, i)
	}
	return rows
}

// oracleRows computes the neighbours of some rows by sorting all scores.
func oracleRows(t *testing.T, g knntest.Group, rows []int) knn.Result {
	t.Helper()
	images, texts := make([][]float32, g.V.Rows), make([][]float32, g.V.Rows)
	for i := range images {
		images[i], texts[i] = g.V.Row(i, nil), g.T.Row(i, nil)
	}
	best := func(score func(j int) float64, skip int) []int32 {
		order, scores := []int32{}, make([]float64, len(images))
		for j := range images {
			if j != skip {
				scores[j] = score(j)
				order = append(order, int32(j))
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		return order
	}
	var out knn.Result
	for _, i := range rows {
		v2v := best(func(j int) float64 { return knn.Score(images[i], images[j]) }, i)[:g.P.K1]
		t2v := best(func(j int) float64 { return knn.Score(texts[i], images[j]) }, -1)[:g.P.K2]
		out.V2T = append(out.V2T, best(func(j int) float64 { return knn.Score(images[i], texts[j]) }, -1)[:g.P.K]...)
		out.V2V = append(out.V2V, v2v...)
		found := 0
		for _, j := range v2v {
			if slices.Contains(t2v, j) {
				out.SE = append(out.SE, j)
				found++
			}
		}
		for ; found < g.P.K1; found++ {
			out.SE = append(out.SE, -1)
		}
	}
	return out
}

func TestNeighborsRefusesBadInput(t *testing.T) {
	for name, g := range knntest.Refused() {
		before := cpu.Live()
		if _, err := (cpu.Engine{}).Neighbors(context.Background(), g.V, g.T, g.P); err == nil {
			t.Errorf("%s: no error", name)
		}
		if after := cpu.Live(); after != before {
			t.Errorf("%s: %d handles live after, %d before", name, after, before)
		}
	}
}

func TestNeighborsStopWhenAsked(t *testing.T) {
	rows := knntest.Halves(knntest.UnitRows(rng.New(4, "stop"), 100, 8, 1, 0), 8)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := (cpu.Engine{}).Neighbors(ctx, rows, rows, knn.Params{K: 1, K1: 1, K2: 1})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that the context was canceled", err)
	}
}
