//go:build torture

package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// tarVariable names the folder that a child process publishes.
const tarVariable = "PAIRSTREAM_TORTURE_TARS"

// maxLogBytes is the largest size of a tar on the log, for each of its bytes.
const maxLogBytes = 20

// publish does with a folder what `pairstream produce` does, and returns the outcome.
func publish(dir string) string {
	l := &scale{ends: make([]int64, 4)}
	sum, _, err := dataset.Produce(context.Background(), []string{dir}, dataset.ProduceOptions{Lanes: len(l.ends)}, l)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("published %d pairs, %d problems, %d bytes", sum.Pairs, sum.Problems, l.bytes)
}

// scale is an empty log that weighs what is published.
type scale struct {
	bytes int
	ends  []int64
}

var _ dataset.Ledger = (*scale)(nil)

func (s *scale) Sources(context.Context) (map[string]dataset.SourceNote, error) { return nil, nil }
func (s *scale) Note(context.Context, []dataset.SourceNote) error               { return nil }
func (s *scale) Ends(context.Context) ([]int64, error)                          { return s.ends, nil }
func (s *scale) Behind(context.Context, []int64, func([]byte)) error            { return nil }
func (s *scale) Topic(context.Context) (string, error)                          { return "", nil }
func (s *scale) Ended(context.Context) (map[int]*schemas.Seal, error)           { return nil, nil }

func (s *scale) Publish(_ context.Context, m dataset.Message) error {
	s.bytes += len(m.Value)
	return nil
}

// TestTortureTars puts a good tar before and after each hostile one. Both go through.
func TestTortureTars(t *testing.T) {
	const good = 50
	var all worst
	for _, hostile := range Tars() {
		t.Run(hostile.Name, func(t *testing.T) {
			dir, raw := t.TempDir(), hostile.Build()
			for name, content := range map[string][]byte{"1.tar": goodTar("before", good), "2.tar": raw, "3.tar": goodTar("behind", good)} {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
			}
			said, seconds, rss := measure(t, tarVariable+"="+dir)
			all.add(hostile.Name, seconds, rss)
			var pairs, problems, bytes int
			if _, err := fmt.Sscanf(said, "published %d pairs, %d problems, %d bytes", &pairs, &problems, &bytes); err != nil {
				t.Fatalf("the process said %q", said)
			}
			t.Logf("%9d bytes  %5.2f s  %4d MiB  %s", len(raw), seconds, rss>>20, said)
			if pairs < 2*good {
				t.Errorf("%d pairs, but %d good ones lie before and behind", pairs, 2*good)
			}
			if pairs == 2*good && problems == 0 && !strings.Contains(hostile.Name, "zeros") {
				t.Error("the tar gave nothing, not even a problem")
			}
			if most := maxLogBytes*len(raw) + 1<<16; bytes > most {
				t.Errorf("%d bytes became %d, want at most %d", len(raw), bytes, most)
			}
			if seconds > 2*maxSeconds || rss > maxRSS/2 {
				t.Errorf("%.2f s and %d MiB, want at most %.0f s and %d MiB", seconds, rss>>20, 2*maxSeconds, maxRSS>>21)
			}
		})
	}
	all.record(t, "torture: tars")
}

// goodTar returns pictures with one caption each.
func goodTar(name string, n int) []byte {
	var all []entry
	for i := range n {
		all = append(all, entry{name: fmt.Sprintf("%s%d.png", name, i), data: pixel}, entry{name: fmt.Sprintf("%s%d.txt", name, i), data: fmt.Appendf(nil, "%s %d", name, i)})
	}
	return pack(all...)
}
