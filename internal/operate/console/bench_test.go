package console_test

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
)

// BenchmarkPages measures how long pages take at the server, and how large the index is. PAIRSTREAM_CONSOLE_PAIRS says
// over how many pairs; with a million, it takes some minutes to begin.
func BenchmarkPages(b *testing.B) {
	pairs := 20_000
	if text := os.Getenv("PAIRSTREAM_CONSOLE_PAIRS"); text != "" {
		var err error
		if pairs, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	s := open(b, runlog.Options{Pairs: pairs, Batch: 96, Epochs: 2, DeadLetters: 2000}, nil)
	b.Logf("written and indexed in %s", time.Since(began).Round(time.Second))
	totals := must.Get(s.index.Totals(b.Context()))(b)
	size := float64(totals.Bytes) / float64(totals.Pairs)
	if size > 400 {
		b.Errorf("the index takes %.0f bytes a pair, want at most 400", size)
	}
	for _, page := range []string{"/", "/groups", "/groups/0/0", "/groups/0/0/batches/1/%", "/pairs/%", "/connections/0/0", "/training", "/dead-letters", "/search?q=red+circle"} {
		b.Run(page, func(b *testing.B) {
			var took []time.Duration
			for i := range b.N {
				path := page
				switch page {
				case "/pairs/%":
					path = "/pairs/" + s.run.Pairs[(i*7919)%pairs].ID.String()
				case "/groups/0/0/batches/1/%":
					path = "/groups/0/0/batches/1/" + strconv.Itoa((i*31)%(pairs/96))
				}
				at := time.Now()
				if status, body, _ := s.ask(http.MethodGet, path, nil, nil); status != http.StatusOK {
					b.Fatalf("%s: %d %s", path, status, body)
				}
				took = append(took, time.Since(at))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(size, "index-bytes/pair")
		})
	}
}
