package ingest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/crawl/ingest"
)

// BenchmarkIngest sends pairs to a front door from four clients, each image once. Door, clients and embedded broker
// share this process, so pairs/cpu-s has the shares of all three in it.
func BenchmarkIngest(b *testing.B) {
	for _, test := range []struct{ lines, bytes int }{{100, 1200}, {100, 20_000}, {1, 1200}, {1, 20_000}} {
		b.Run(fmt.Sprintf("%d lines of %d bytes", test.lines, test.bytes), func(b *testing.B) {
			d := open(b, func(o *ingest.Options) { o.Settings.MaxLag = 0 })
			data := append(picture(1), make([]byte, test.bytes)...)
			var number atomic.Uint64
			before := machine.ProcessorTime()
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				mine := bytes.Clone(data)
				for pb.Next() {
					var body strings.Builder
					for range test.lines {
						n := number.Add(1)
						binary.LittleEndian.PutUint64(mine[len(mine)-8:], n)
						fmt.Fprintf(&body, "{\"image\":\"%s\",\"caption\":\"number %d\"}\n", base64.StdEncoding.EncodeToString(mine), n)
					}
					if status, got, _ := d.post("application/x-ndjson", []byte(body.String())); status != http.StatusOK {
						b.Errorf("%d %+v", status, got)
					}
				}
			})
			done := float64(number.Load())
			b.ReportMetric(done/b.Elapsed().Seconds(), "pairs/s")
			b.ReportMetric(done/(machine.ProcessorTime()-before).Seconds(), "pairs/cpu-s")
		})
	}
}
