package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/pairstream/pairstream/internal/knn/cpu"
	"github.com/pairstream/pairstream/internal/machine"
	"github.com/pairstream/pairstream/internal/segment"
	"github.com/pairstream/pairstream/internal/segment/store"
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
