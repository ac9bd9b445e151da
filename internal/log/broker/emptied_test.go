package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestAnEmptiedPartitionGoesOn removes all records of a topic, in several ways. Its next record has the next offset,
// whatever happens to the broker in between.
func TestAnEmptiedPartitionGoesOn(t *testing.T) {
	segment := func(dir string, name string) string {
		return filepath.Join(dir, "log", partitionsFolder, "pairs-0", name)
	}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"after an orderly end": func(*testing.T, string) {},
		"after a kill": func(t *testing.T, dir string) {
			must.Do(t, os.Remove(segment(dir, snapshotFile)))
		},
		"after a kill within the next batch": func(t *testing.T, dir string) {
			batch := batchOf(nil, "never acknowledged")
			batch[7] = 6 // its offset
			must.Do(t, os.WriteFile(segment(dir, "6.dat"), batch[:len(batch)-3], 0o644))
		},
		"after a kill within the head of the next batch": func(t *testing.T, dir string) {
			must.Do(t, os.WriteFile(segment(dir, "6.dat"), make([]byte, 5), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(work func(c *asker, b *Broker)) {
				b := must.Get(Start(Options{DataDir: dir}))(t)
				c := must.Get(newAsker(b))(t)
				work(c, b)
				must.Do(t, c.conn.Close())
				must.Do(t, b.Close())
			}
			run(func(c *asker, _ *Broker) {
				must.Do(t, c.create("pairs", map[string]string{"segment.bytes": "100", "retention.ms": "1"}))
				for range 3 {
					must.Get(c.produce("pairs", batchOf(nil, "a", "b")))(t)
				}
				must.Do(t, c.empty("pairs"))
			})
			spoil(t, dir)
			for n := range int64(3) { // a start, then one behind records, then one behind records that retention has removed
				run(func(c *asker, b *Broker) {
					if base := must.Get(c.produce("pairs", batchOf(nil, "c")))(t); base != 6+n {
						t.Errorf("start %d: the next record has offset %d, want %d", n, base, 6+n)
					}
					from, end, err := c.bounds("pairs")
					if want := []int64{6, 6, 8}[n]; err != nil || from != want || end != 7+n {
						t.Errorf("start %d: the topic lies from %d to %d (%v), want %d to %d", n, from, end, err, want, 7+n)
					}
					if n == 1 {
						b.Cluster().ApplyRetention() // the records are of 1970
					}
				})
			}
		})
	}
}
