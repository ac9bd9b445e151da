package indexer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/device"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// vectors are the reference's, with int32 and matrices as the indexer wants them.
type vectors struct{ *golden.File }

func (v vectors) ints(name string) []int32 {
	values := v.Int64s(name)
	out := make([]int32, len(values))
	for i, x := range values {
		out[i] = int32(x)
	}
	return out
}

func (v vectors) number(name string) int { return int(v.Int64s(name)[0]) }

func (v vectors) width(name string) int { return int(v.Must(name).Shape[1]) }

func (v vectors) matrix(name string) knn.Matrix {
	return knn.FloatMatrix(v.Float32s(name), v.width(name))
}

// equalRows compares row by row; a width of 0 is one row.
func equalRows(t *testing.T, what string, got, want []int32, width int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			row := i / width
			t.Fatalf("%s, row %d: %v, want %v", what, row, got[row*width:(row+1)*width], want[row*width:(row+1)*width])
		}
	}
}

func gpns(t *testing.T) vectors {
	t.Helper()
	return vectors{golden.Open(t, "gpns.safetensors")}
}

func (v vectors) params() knn.Params {
	return knn.Params{K: v.number("in.k"), K1: v.number("in.k1"), K2: v.number("in.k2")}
}

// engines returns all that there are; small tiles, so that the vectors fill many.
func engines(t *testing.T) map[string]knn.Engine {
	t.Helper()
	w := torchtest.NewWorker(t, torch.WorkerOptions{Threads: 1})
	return map[string]knn.Engine{
		"cpu": cpu.Engine{}, "device": device.New(w, device.Options{Rows: 100, Columns: 90}), "reference": reference.Engine{},
	}
}

func TestGoldenNeighbors(t *testing.T) {
	v := gpns(t)
	images, texts, p := v.matrix("in.image_feat"), v.matrix("in.text_feat"), v.params()
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			got := must.Get(engine.Neighbors(context.Background(), images, texts, p))(t)
			equalRows(t, "v2t", got.V2T, v.ints("out.v2t"), p.K)
			equalRows(t, "v2v", got.V2V, v.ints("out.v2v"), p.K1)
			equalRows(t, "se", got.SE, v.ints("out.se"), p.K1)
			for i, size := range v.ints("out.se_size") {
				found := 0
				for _, j := range got.SE[i*p.K1 : (i+1)*p.K1] {
					if j >= 0 {
						found++
					}
				}
				if found != int(size) {
					t.Errorf("SE of image %d has %d images, want %d", i, found, size)
				}
			}
		})
	}
}

func TestGoldenSimilarities(t *testing.T) {
	v := gpns(t)
	images, texts, p := v.matrix("in.image_feat"), v.matrix("in.text_feat"), v.params()
	score := func(a knn.Matrix, i int, b knn.Matrix, j int32) float64 {
		return knn.Score(a.Row(i, nil), b.Row(int(j), nil))
	}
	var pairs, v2t, v2v []float64
	v2tRows, v2vRows := v.ints("out.v2t"), v.ints("out.v2v")
	for i := range images.Rows {
		pairs = append(pairs, score(images, i, texts, int32(i)))
		for _, j := range v2tRows[i*p.K : (i+1)*p.K] {
			v2t = append(v2t, score(images, i, texts, j))
		}
		for _, j := range v2vRows[i*p.K1 : (i+1)*p.K1] {
			v2v = append(v2v, score(images, i, images, j))
		}
	}
	golden.Close(t, "similarity of a pair", pairs, v.Float64s("out.pair_sim"), 1e-12, 0)
	golden.Close(t, "similarity of an image and its texts", v2t, v.Float64s("out.v2t_sim"), 1e-12, 0)
	golden.Close(t, "similarity of an image and its images", v2v, v.Float64s("out.v2v_sim"), 1e-12, 0)
}

func TestGoldenKMeans(t *testing.T) {
	v := gpns(t)
	x := v.matrix("in.image_feat")
	p := knn.KMeansParams{Init: v.ints("in.kmeans_init"), Iterations: v.number("in.kmeans_iters")}
	for name, engine := range engines(t) {
		t.Run(name, func(t *testing.T) {
			got := must.Get(engine.KMeans(context.Background(), x, p))(t)
			equalRows(t, "assignments", got.Assign, v.ints("out.kmeans_assign"), 1)
			golden.Close(t, "centroids", got.Centroids, v.Float64s("out.kmeans_centroids"), 1e-10, 0)
			golden.Close(t, "inertia", []float64{got.Inertia}, v.Float64s("out.kmeans_inertia"), 1e-10, 0)
		})
	}
}

// goldenNouns names the nouns by number, in the order of the numbers.
func goldenNouns(v vectors) (t nounTable, names []string) {
	for id := range v.number("in.num_nouns") {
		names = append(names, fmt.Sprintf("noun%06d", id))
	}
	for row := range slices.Chunk(v.ints("in.caption_nouns"), v.width("in.caption_nouns")) {
		var nouns []string
		for _, id := range row {
			if id >= 0 {
				nouns = append(nouns, names[id])
			}
		}
		t.add(nouns)
	}
	return t, names
}

func TestGoldenObjects(t *testing.T) {
	v := gpns(t)
	table, names := goldenNouns(v)
	counts, flags := v.ints("out.noun_count"), v.Bools("out.noun_kept")
	words, places := table.vocabulary(v.number("in.min_count"))
	for id, name := range names {
		number, ok := table.numbers[name]
		if !ok {
			if counts[id] != 0 {
				t.Errorf("%s was not counted, want %d captions", name, counts[id])
			}
			continue
		}
		if table.counts[number] != counts[id] {
			t.Errorf("%s is in %d captions, want %d", name, table.counts[number], counts[id])
		}
		if slices.Contains(words, name) != flags[id] {
			t.Errorf("%s is in S_n: %v, want %v", name, !flags[id], flags[id])
		}
	}
	want, width := v.ints("out.obj"), v.width("out.obj")
	v2t, k := v.ints("out.v2t"), v.number("in.k")
	counter := newObjectCounter(&table, places, len(words), v.Float64s("in.p")[0])
	for i := range len(v2t) / k {
		var got []int32
		for _, place := range counter.objects(nil, v2t[i*k:(i+1)*k], nil) {
			got = append(got, int32(slices.Index(names, words[place])))
		}
		for len(got) < width {
			got = append(got, -1)
		}
		if !slices.Equal(got, want[i*width:(i+1)*width]) {
			t.Fatalf("objects of image %d: %v, want %v", i, got, want[i*width:(i+1)*width])
		}
	}
}

// TestGoldenNounsInNeighbours finds how many neighbour texts have a noun by asking for ever larger shares.
func TestGoldenNounsInNeighbours(t *testing.T) {
	v := gpns(t)
	table, names := goldenNouns(v)
	words, places := table.vocabulary(0)
	v2t, k := v.ints("out.v2t"), v.number("in.k")
	want := v.ints("out.noun_freq_in_neighbours")
	for i := range len(v2t) / k {
		got := make([]int32, len(names))
		for count := 1; count <= k; count++ {
			counter := newObjectCounter(&table, places, len(words), (float64(count)-0.5)/float64(k))
			for _, place := range counter.objects(nil, v2t[i*k:(i+1)*k], nil) {
				got[slices.Index(names, words[place])]++
			}
		}
		if !slices.Equal(got, want[i*len(names):(i+1)*len(names)]) {
			t.Fatalf("nouns in the neighbours of image %d: %v, want %v", i, got, want[i*len(names):(i+1)*len(names)])
		}
	}
}
