package indexer_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const benchDim = 256

// crawl makes embeddings of what is drawn.
type crawl struct {
	*knntest.Crawl
	drawn uint64
}

// newCrawl draws around ten thousand centres.
func newCrawl(seed uint64) *crawl {
	return &crawl{Crawl: knntest.New(rng.New(seed, "crawl"), 500, 20, benchDim)}
}

func (c *crawl) next() *schemas.Embedding {
	v, t := c.Next()
	e := &schemas.Embedding{V: schemas.NewFloat16s(v), T: schemas.NewFloat16s(t), Model: "m", Caption: "a dog on a beach"}
	c.drawn++
	binary.LittleEndian.PutUint64(e.ImageID[:], c.drawn)
	e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	return e
}

// status reads a size from /proc/self/status, in bytes.
func status(b *testing.B, name string) float64 {
	b.Helper()
	file, err := os.Open("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			kilobytes := must.Get(strconv.ParseFloat(strings.Fields(rest)[0], 64))(b)
			return kilobytes * 1024
		}
	}
	b.Skipf("no %s in /proc/self/status", name)
	return 0
}

func benchBuilder(b *testing.B, o indexer.Options, live *indexer.Live) *indexer.Builder {
	b.Helper()
	builder := must.Get(indexer.NewBuilder(schemas.GroupID{}, o, cpu.Engine{}, nouns{}, live))(b)
	return builder
}

// BenchmarkGroup assembles and closes a group, and reports its memory: resident at the end of adding and at the peak.
func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{12_500, 25_000, 50_000, 100_000} {
		b.Run(fmt.Sprintf("D=%d", n), func(b *testing.B) {
			o := indexer.DefaultOptions()
			o.GroupSize = n
			for range b.N {
				b.StopTimer()
				c := newCrawl(1)
				runtime.GC()
				before := status(b, "VmRSS")
				b.StartTimer()
				builder := benchBuilder(b, o, nil)
				for i := range n {
					b.StopTimer()
					e := c.next()
					b.StartTimer()
					must.Get(builder.Add(e, int64(i)))(b)
				}
				b.ReportMetric((status(b, "VmRSS")-before)/float64(n), "B/pair-added")
				must.Get(builder.Close(context.Background(), indexer.ByCount))(b)
				b.ReportMetric((status(b, "VmHWM")-before)/float64(n), "B/pair-peak")
			}
		})
	}
}

// BenchmarkLive fills a group, then searches it while pairs are added at a steady rate; it reports recall against exact
// search, and the times of searches and of additions.
func BenchmarkLive(b *testing.B) {
	const addsPerSecond, k = 2000, 10
	for _, n := range []int{50_000, 200_000, 1_000_000} {
		b.Run(fmt.Sprintf("D=%d", n), func(b *testing.B) {
			live := must.Get(indexer.NewLive(indexer.DefaultLiveOptions(), cpu.Engine{}))(b)
			ctx, stop := context.WithCancel(context.Background())
			var background sync.WaitGroup
			background.Go(func() {
				must.Check(b, live.Run(ctx))
			})
			o := indexer.DefaultOptions()
			builder, c := benchBuilder(b, o, live), newCrawl(2)
			var queries []*schemas.Embedding
			for i := range n {
				e := c.next()
				if i%(n/500) == 0 {
					queries = append(queries, e)
				}
				must.Get(builder.Add(e, int64(i)))(b)
			}
			for live.Status()[0].InLists < n-indexer.DefaultLiveOptions().TailRows {
				time.Sleep(10 * time.Millisecond)
			}
			probes, resident, recall := live.Status()[0].Probes, status(b, "VmRSS"), liveRecall(b, live, queries, k)

			done := make(chan struct{})
			adding := make(chan []time.Duration)
			go func() { adding <- steadily(b, builder, c, n, addsPerSecond, done) }()
			b.ResetTimer()
			var searches []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				must.Get(live.Search(queries[i%len(queries)].V.Floats(), indexer.Query{K: k, Modality: indexer.Text}))(b)
				searches = append(searches, time.Since(start))
			}
			b.StopTimer()
			close(done)
			b.ReportMetric(float64(probes), "probes")
			b.ReportMetric(resident/float64(n), "B/pair")
			b.ReportMetric(recall, "recall@10")
			report(b, "search", searches)
			report(b, "add", <-adding)
			stop()
			background.Wait()
			must.Do(b, builder.Free())
			must.Do(b, live.Close())
		})
	}
}

// steadily adds pairs at a rate until it is told to stop, and returns how long each addition took.
func steadily(b *testing.B, builder *indexer.Builder, c *crawl, offset, perSecond int, done <-chan struct{}) (times []time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return times
		case <-tick.C:
		}
		for range perSecond / 100 {
			e := c.next()
			start := time.Now()
			if _, err := builder.Add(e, int64(offset)); err != nil {
				b.Error(err)
				return times
			}
			times = append(times, time.Since(start))
			offset++
		}
	}
}

func report(b *testing.B, what string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2].Seconds()*1e3, what+"-p50-ms")
	b.ReportMetric(times[len(times)*99/100].Seconds()*1e3, what+"-p99-ms")
}

// liveRecall compares with a search that looks at everything.
func liveRecall(b *testing.B, live *indexer.Live, queries []*schemas.Embedding, k int) float64 {
	b.Helper()
	found, wanted := 0, 0
	for _, e := range queries[:100] {
		for _, modality := range []string{indexer.Text, indexer.Image} {
			got := must.Get(live.Search(e.V.Floats(), indexer.Query{K: k, Modality: modality}))(b)
			want := must.Get(live.Search(e.V.Floats(), indexer.Query{K: k, Modality: modality, Exact: true}))(b)
			for _, w := range want.Neighbors {
				wanted++
				if slices.ContainsFunc(got.Neighbors, func(n indexer.Neighbor) bool { return n.Pair == w.Pair }) {
					found++
				}
			}
		}
	}
	return float64(found) / float64(wanted)
}
