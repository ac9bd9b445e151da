package grouper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// matrix reads a tensor of feature rows.
func matrix(f *golden.File, name string) *dotproduct.Matrix {
	shape := f.Must(name).Shape
	values := f.Float32s(name)
	m := dotproduct.NewMatrix(int(shape[0]), int(shape[1]))
	for i := range m.Rows() {
		copy(m.Row(i), values[i*m.Dim():])
	}
	return m
}

func int32s(values []int64) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

// distinct numbers as many images as there are pairs.
func distinct(n int) []int32 {
	image := make([]int32, n)
	for i := range image {
		image[i] = int32(i)
	}
	return image
}

func TestGoldenWalks(t *testing.T) {
	f := golden.Open(t, "grit_grouping.safetensors")
	for _, name := range []string{"rand0", "rand1", "rand2", "rand3", "clus"} {
		for _, tune := range []tuning{{lists: 2, grain: 100}, {lists: 64, grain: 100}, {codes: true, whole: math.MaxInt}} {
			t.Run(fmt.Sprintf("%s, %+v", name, tune), func(t *testing.T) {
				v, tt := matrix(f, name+".image_feat"), matrix(f, name+".text_feat")
				got := must.Get(walk(context.Background(), v, tt, int(f.Int64s(name + ".start")[0]), WalkRule{Workers: 2}, tune))(t)
				if want := int32s(f.Int64s(name + ".order")); !slices.Equal(got, want) {
					t.Errorf("got  %d\nwant %d", got, want)
				}
			})
		}
	}
}

// rows are features by row of two matrices.
type rows struct{ v, t *dotproduct.Matrix }

func (r rows) Dim() int { return r.v.Dim() }

func (r rows) Read(p int32, v, t []float32) {
	copy(v, r.v.Row(int(p)))
	copy(t, r.t.Row(int(p)))
}

// recorded plays back the draws of the reference.
type recorded struct {
	t       *testing.T
	lengths []int64 // of the example-level permutations
	perms   []int64 // all of them
	sizes   []int64 // of the search spaces
	starts  []int64
	cuts    []int64
}

func (r recorded) Examples(queue, n int) []int32 {
	if queue >= len(r.lengths) || int(r.lengths[queue]) != n {
		r.t.Fatalf("queue %d has %d pairs, the reference's queues %d", queue, n, r.lengths)
	}
	from := 0
	for _, l := range r.lengths[:queue] {
		from += int(l)
	}
	return int32s(r.perms[from : from+n])
}

func (r recorded) Start(walk, n int) int {
	if walk >= len(r.sizes) || int(r.sizes[walk]) != n+1 { // the released code leaves out the last
		r.t.Fatalf("walk %d starts below %d, the reference's search spaces are %d", walk, n, r.sizes)
	}
	return int(r.starts[walk])
}

func (r recorded) Cuts(n int) []int32 {
	if len(r.cuts) != n {
		r.t.Fatalf("%d full mini-batches, the reference has %d", n, len(r.cuts))
	}
	return int32s(r.cuts)
}

// inOrder leaves out the mini-batch shuffle, so that the order before it can be compared too.
type inOrder struct{ recorded }

func (r inOrder) Cuts(n int) []int32 { return distinct(n) }

func TestGoldenEpoch(t *testing.T) {
	f := golden.Open(t, "grit_grouping.safetensors")
	one := func(name string) int { return int(f.Int64s("epoch." + name)[0]) }
	draws := recorded{
		t: t, lengths: f.Int64s("epoch.shuffle_lengths"), perms: f.Int64s("epoch.shuffle_perms"),
		sizes: f.Int64s("epoch.group_sizes"), starts: f.Int64s("epoch.group_starts"), cuts: f.Int64s("epoch.minibatch_perm"),
	}
	rule := GRITRule{BatchSize: one("batch_size"), QueueSize: one("queue_size"), SearchSpace: one("search_space"), StartAsReleased: true, Workers: 2}
	features := rows{matrix(f, "epoch.image_feat"), matrix(f, "epoch.text_feat")}
	order := int32s(f.Int64s("epoch.sampler_order"))
	for name, d := range map[string]GRITDraws{"before": inOrder{draws}, "after": draws} {
		plan := must.Get(GRIT(context.Background(), order, features, distinct(features.v.Rows()), rule, d))(t)
		if want := int32s(f.Int64s("epoch.order_" + name + "_phase4")); !slices.Equal(plan.Order, want) {
			t.Errorf("%s the mini-batch shuffle: got %d\nwant %d", name, plan.Order, want)
		}
	}
}

func TestGoldenReplacement(t *testing.T) {
	f := golden.Open(t, "gpns.safetensors")
	similarities := f.Float64s("out.pair_sim")
	smallest, greatest := slices.Min(similarities), slices.Max(similarities)
	epochs := int(f.Int64s("in.E")[0])
	want, replaced := f.Float64s("out.alpha"), f.Bools("out.replaced")
	got := make([]float64, len(want))
	for e := range got {
		got[e] = Alpha(e, epochs, smallest, greatest)
		for i, s := range similarities {
			if Replaced(s, got[e]) != replaced[e*len(similarities)+i] {
				t.Errorf("epoch %d: text %d of similarity %g is replaced: %t", e, i, s, !replaced[e*len(similarities)+i])
			}
		}
	}
	golden.Close(t, "alpha", got, want, 1e-14, 0)
}
