package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
)

// search maps the segments that are there, and prints recall and times of the queries.
func (s settings) search(ctx context.Context, place *store.Store, asked [][]float32, truth [2][]exact) (err error) {
	names, err := place.List(ctx, model)
	if err != nil {
		return err
	}
	var all []*segment.Segment
	defer func() {
		for _, one := range all {
			err = errors.Join(err, one.Close())
		}
	}()
	bytes, rows := int64(0), 0
	err = place.Each(ctx, func(string) bool { return len(all) >= min(s.groups, len(names)) }, func(_ string, one *segment.Segment, problem error) {
		if problem != nil {
			fmt.Println(problem)
			return
		}
		all, bytes, rows = append(all, one), bytes+int64(len(one.Bytes())), rows+one.Rows
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d pairs in %d segments, %.0f bytes a pair\n", rows, len(all), float64(bytes)/float64(rows))
	index := segment.NewIndex(cpu.Engine{}, all...)
	for m, name := range []string{"images", "texts"} {
		for _, round := range []string{"first", "warm"} {
			recall, processor, wall, err := measure(ctx, index, segment.Modality(m), asked, truth[m])
			if err != nil {
				return err
			}
			fmt.Printf("%s, %s: recall@%d %.4f; processor time %s; time %s\n", name, round, k, recall, percentiles(processor), percentiles(wall))
		}
	}
	fmt.Printf("peak memory, mapped pages among it: %d MiB\n", peak()>>20)
	return nil
}

func percentiles(times []time.Duration) string {
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[int(share*float64(len(times)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v", at(0.5), at(0.99))
}

// measure searches for every query by itself, on one thread.
func measure(ctx context.Context, index *segment.Index, m segment.Modality, asked [][]float32, truth []exact) (recall float64, processor, wall []time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	found := 0
	for i, vector := range asked {
		q := segment.NewQueries(1, dim, func(_ int, dst []float32) []float32 { return append(dst, vector...) })
		begin, used := time.Now(), machine.ProcessorTime()
		hits, err := index.Search(ctx, m, q, k, 1, nil)
		if err != nil {
			return 0, nil, nil, err
		}
		processor, wall = append(processor, machine.ProcessorTime()-used), append(wall, time.Since(begin))
		for _, e := range truth[i] {
			if slices.ContainsFunc(hits[0], func(h segment.Hit) bool {
				one := index.Segment(h)
				return one.Group.Seq == e.Group && one.Position(int(h.Row)) == e.Position
			}) {
				found++
			}
		}
	}
	return float64(found) / float64(k*len(asked)), processor, wall, nil
}

func usage() syscall.Rusage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constant
	}
	return u
}

// peak returns the most memory that the process had, in bytes.
func peak() int64 { return usage().Maxrss << 10 }

// crawl draws pairs. Noise comes from a table, from a place that is drawn, so that ten million pairs take minutes.
type crawl struct {
	centres []float32 // rows
	noise   []float32 // normal
}

const (
	topics   = 500
	perTopic = 20
	spread   = 0.8 // of a vector's length: the noise around it
)

func newCrawl() *crawl {
	r := rng.New(7, "bench.archive.centres")
	c := &crawl{noise: make([]float32, 1<<22)}
	for i := range c.noise {
		c.noise[i] = float32(r.NormFloat64())
	}
	topic := make([]float32, dim)
	for i := range topics * perTopic {
		for j := range topic {
			if i%perTopic == 0 {
				topic[j] = float32(r.NormFloat64())
			}
			c.centres = append(c.centres, topic[j]+float32(0.7*r.NormFloat64()))
		}
	}
	return c
}

// around writes a unit vector around another vector.
func (c *crawl) around(x, out []float32, at int) {
	norm := float32(0)
	for _, v := range x {
		norm += v * v
	}
	scale, sum := spread*float32(math.Sqrt(float64(norm)/dim)), float32(0)
	for j, noise := range c.noise[at : at+dim] {
		out[j] = x[j] + scale*noise
		sum += out[j] * out[j]
	}
	scale = 1 / float32(math.Sqrt(float64(sum)))
	for j := range out {
		out[j] *= scale
	}
}

func (c *crawl) image(r *rand.Rand, out []float32) {
	at := r.IntN(topics*perTopic) * dim
	c.around(c.centres[at:at+dim], out, r.IntN(len(c.noise)-dim))
}

// queries draws images that no group has.
func (c *crawl) queries() [][]float32 {
	r := rng.New(7, "bench.archive.queries")
	all := make([][]float32, queries)
	for i := range all {
		all[i] = make([]float32, dim)
		c.image(r, all[i])
	}
	return all
}

// draw draws the images and texts of a group.
func (c *crawl) draw(number int64, n int) (v, t knn.Matrix) {
	r := rng.New(7, "bench.archive.group", number)
	image, text := make([]float32, dim), make([]float32, dim)
	images, texts := make([]uint16, n*dim), make([]uint16, n*dim)
	for i := range n {
		c.image(r, image)
		c.around(image, text, r.IntN(len(c.noise)-dim))
		for j := range dim {
			images[i*dim+j] = float16.Fromfloat32(image[j]).Bits()
			texts[i*dim+j] = float16.Fromfloat32(text[j]).Bits()
		}
	}
	return knn.HalfMatrix(images, dim), knn.HalfMatrix(texts, dim)
}
