package onlog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const (
	benchTars  = 8
	benchPairs = 5000 // of each tar
	benchLanes = 4
)

// BenchmarkProduce scans tars and publishes their pairs to an embedded broker that keeps its log on disk. All of it
// runs in this process, so pairs/cpu-s has the broker's share in it. The other two do one half each.
func BenchmarkProduce(b *testing.B) {
	dir := writeTars(b)
	var messages []dataset.Message
	must.Get2(dataset.Produce(b.Context(), []string{dir}, dataset.ProduceOptions{Lanes: benchLanes}, takes{&messages}))(b)
	b.Run("scan", func(b *testing.B) {
		measure(b, func() error {
			var n []dataset.Message
			_, _, err := dataset.Produce(b.Context(), []string{dir}, dataset.ProduceOptions{Lanes: benchLanes}, takes{&n})
			return err
		})
	})
	b.Run("publish", func(b *testing.B) {
		log := open(b)
		measure(b, func() error {
			p := log.NewPublisher(stream.PublisherOptions{})
			for _, m := range messages {
				if err := p.PublishBytes(b.Context(), schemas.Pairs, m.Lane, m.Schema, m.Value); err != nil {
					return err
				}
			}
			return p.Close(b.Context())
		})
	})
	b.Run("both", func(b *testing.B) {
		log := open(b)
		measure(b, func() error {
			p := log.NewPublisher(stream.PublisherOptions{})
			sum, _, err := dataset.Produce(b.Context(), []string{dir}, dataset.ProduceOptions{Lanes: benchLanes, Anew: true}, onlog.New(log, p))
			if err == nil && sum.Pairs != benchTars*benchPairs {
				err = fmt.Errorf("%d pairs", sum.Pairs)
			}
			if err != nil {
				return err
			}
			return p.Close(b.Context())
		})
	})
}

// takes keeps the messages.
type takes struct{ messages *[]dataset.Message }

func (takes) Sources(context.Context) (map[string]dataset.SourceNote, error) { return nil, nil }
func (takes) Note(context.Context, []dataset.SourceNote) error               { return nil }
func (takes) Ends(context.Context) ([]int64, error)                          { return make([]int64, benchLanes), nil }
func (takes) Topic(context.Context) (string, error)                          { return "", nil }
func (takes) Behind(context.Context, []int64, func([]byte)) error            { return nil }
func (takes) Ended(context.Context) (map[int]*schemas.Seal, error)           { return nil, nil }
func (t takes) Publish(_ context.Context, m dataset.Message) error {
	*t.messages = append(*t.messages, m)
	return nil
}

// writeTars writes tars of small images, with a caption and the columns that img2dataset writes.
func writeTars(b *testing.B) (dir string) {
	b.Helper()
	dir = b.TempDir()
	picture := make([]byte, 1200)
	for n := range benchTars {
		var buf bytes.Buffer
		w := shard.NewWriter(&buf)
		for i := range benchPairs {
			binary.LittleEndian.PutUint64(picture, uint64(n*benchPairs+i))
			meta := fmt.Appendf(nil, `{"url":"https://example.org/%d/%d.jpg","width":256,"height":256,"similarity":0.31,"punsafe":0.001}`, n, i)
			must.Get(w.Write(fmt.Sprintf("%09d", i), shard.File{Ext: "jpg", Data: picture},
				shard.File{Ext: "txt", Data: fmt.Appendf(nil, "a photograph of number %d in tar %d", i, n)}, shard.File{Ext: "json", Data: meta}))(b)
		}
		must.Do(b, w.Close())
		must.Do(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.tar", n)), buf.Bytes(), 0o600))
	}
	return dir
}

// open starts a broker, and returns its log.
func open(b *testing.B) *stream.Log {
	b.Helper()
	broker := must.Get(broker.Start(broker.Options{DataDir: b.TempDir()}))(b)
	b.Cleanup(func() { must.Check(b, broker.Close()) })
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{broker.Addr()}, benchLanes
	log := must.Get(stream.Connect(b.Context(), cfg, stream.Options{}))(b)
	b.Cleanup(log.Close)
	must.Do(b, log.EnsureTopics(b.Context()))
	return log
}

// measure reports pairs a second, and pairs a second of processor time.
func measure(b *testing.B, do func() error) {
	b.ReportAllocs()
	before := machine.ProcessorTime()
	for b.Loop() {
		must.Do(b, do())
	}
	done := float64(b.N) * benchTars * benchPairs
	b.ReportMetric(done/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(done/(machine.ProcessorTime()-before).Seconds(), "pairs/cpu-s")
}
