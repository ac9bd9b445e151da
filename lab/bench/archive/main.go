// Archive measures searches over the segments of many closed groups: recall@10 against exact search, and processor time
// of a query. It draws the pairs of a crawl, in groups, and writes their segments into a folder, which it leaves there.
//
// Usage:
//
//	bin/lab/archive --folder DIR                      # 10 groups of 1,000,000 pairs, 256 values: 5.9 GB
//	bin/lab/archive --folder DIR --groups 3           # builds no more groups than these, and searches those that are there
//
// A group that is there is not built again. Images lie around 10,000 centres, these around 500 topics, and a text lies
// around its image. The lists of a group are the clusters of a sample of 100,000 of its images, as k-means finds them.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/schemas"
)

const (
	dim     = 256
	lists   = 1000
	sample  = 100_000
	queries = 200
	k       = 10
	model   = "drawn"
)

// settings are those of a run.
type settings struct {
	folder        string
	groups, pairs int
}

func main() {
	var s settings
	flag.StringVar(&s.folder, "folder", "", "folder of the segments")
	flag.IntVar(&s.groups, "groups", 10, "groups")
	flag.IntVar(&s.pairs, "pairs", 1_000_000, "pairs of a group")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.folder == "" || s.groups < 1 || s.pairs < lists {
		return fmt.Errorf("want --folder, --groups of 1 or more and --pairs of %d or more", lists)
	}
	place, err := store.Open(ctx, s.folder, "bench")
	if err != nil {
		return err
	}
	crawl := newCrawl()
	asked := crawl.queries()
	var truth [2][]exact // by modality, of each query
	for m := range truth {
		truth[m] = make([]exact, queries)
	}
	for number := range s.groups {
		found, err := s.group(ctx, place, crawl, int64(number), asked)
		if err != nil {
			return fmt.Errorf("group %d: %w", number, err)
		}
		for m := range truth {
			for i := range truth[m] {
				truth[m][i] = truth[m][i].with(found[m][i])
			}
		}
	}
	return s.search(ctx, place, asked, truth)
}

// exact are the nearest rows of a query, best first.
type exact []near

type near struct {
	Group    int64
	Position int
	Score    float32
}

// with returns the nearest of both.
func (e exact) with(other exact) exact {
	all := slices.Concat(e, other)
	slices.SortStableFunc(all, func(a, b near) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return all[:min(k, len(all))]
}

// group builds a group that is not there, and returns the nearest of its rows for each modality and query.
func (s settings) group(ctx context.Context, place *store.Store, c *crawl, number int64, asked [][]float32) (found [2][]exact, err error) {
	note := filepath.Join(s.folder, fmt.Sprintf("exact-%d.json", number))
	raw, err := os.ReadFile(note)
	if err == nil {
		return found, json.Unmarshal(raw, &found)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return found, err
	}
	v, t := c.draw(number, s.pairs)
	for m, x := range []knn.Matrix{v, t} {
		for _, vector := range asked {
			hits, err := cpu.Engine{}.Scan(x, 0, vector, k)
			if err != nil {
				return found, err
			}
			var e exact
			for _, h := range hits {
				e = append(e, near{number, int(h.Row), h.Similarity})
			}
			found[m] = append(found[m], e)
		}
	}
	if err := s.write(ctx, place, number, v, t); err != nil {
		return found, err
	}
	if raw, err = json.Marshal(found); err != nil {
		return found, err
	}
	return found, os.WriteFile(note, raw, 0o644)
}

// write builds the segment of a group.
func (s settings) write(ctx context.Context, place *store.Store, number int64, v, t knn.Matrix) error {
	assign, err := cluster(ctx, v)
	if err != nil {
		return err
	}
	id := func(i int) (id [16]byte) {
		binary.BigEndian.PutUint64(id[:], uint64(i)*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(id[8:], uint64(number)<<32|uint64(i)+1)
		return id
	}
	one, err := segment.Build(segment.Group{
		ID: schemas.GroupID{Seq: number}, Model: model, V: v, T: t, List: assign, Words: []string{"dog", "beach", "man"},
		Pair: func(i int) schemas.PairID { return id(i) }, Image: func(i int) schemas.ImageID { return id(i) },
		Ref: func(i int) schemas.ImageRef {
			return schemas.ImageRef{URI: fmt.Sprintf("s3://crawl/%05d.tar", i/10_000), Offset: int64(i%10_000) * 44_032, Size: 43_000}
		},
		NounOf: func(int) []int32 { return []int32{0, 1, 2} },
	})
	if err != nil {
		return err
	}
	_, err = place.Put(ctx, one)
	return errors.Join(err, one.Close(), atomicfile.SyncFolder(s.folder))
}

// cluster gives every row its list.
func cluster(ctx context.Context, x knn.Matrix) ([]int32, error) {
	some := knn.HalfMatrix(x.Halves[:min(sample, x.Rows)*dim], dim)
	init := make([]int32, lists)
	for i := range init {
		init[i] = int32(i * some.Rows / lists)
	}
	clusters, err := cpu.Engine{}.KMeans(ctx, some, knn.KMeansParams{Init: init, Iterations: 8})
	if err != nil {
		return nil, err
	}
	centroids := make([]float32, len(clusters.Centroids))
	for i, value := range clusters.Centroids {
		centroids[i] = float32(value)
	}
	return cpu.Engine{}.Assign(ctx, x, centroids, 0)
}
