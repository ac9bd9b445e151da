//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// writeTars writes tars of images with 100 captions each.
func writeTars(t *testing.T, tars, images int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for n := range tars {
		var buf bytes.Buffer
		w := shard.NewWriter(&buf)
		for i := range images {
			m := image.NewGray(image.Rect(0, 0, 8, 8))
			m.Pix[0], m.Pix[1] = byte(n), byte(i)
			var encoded bytes.Buffer
			must.Do(t, png.Encode(&encoded, m))
			var captions []string
			for c := range 100 {
				captions = append(captions, fmt.Sprintf(`"image %d of tar %d, caption %d"`, i, n, c))
			}
			json := `{"captions":[` + strings.Join(captions, ",") + `]}`
			must.Get(w.Write(fmt.Sprintf("%05d", i), shard.File{Ext: "png", Data: encoded.Bytes()}, shard.File{Ext: "json", Data: []byte(json)}))(t)
		}
		must.Do(t, w.Close())
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.tar", n)), buf.Bytes(), 0o600))
	}
	return dir
}

// published returns the values of every lane, the first of equal ones each, and the number of the others.
func published(t *testing.T, log *stream.Log) (lanes [][]string, repeats int) {
	t.Helper()
	lanes = make([][]string, log.Config().Lanes)
	for lane := range lanes {
		seen := map[string]bool{}
		for rec, err := range log.Records(t.Context(), schemas.Pairs, lane, stream.Position{}, -1) {
			must.Do(t, err)
			if v := string(rec.Value); seen[v] {
				repeats++
			} else {
				seen[v] = true
				lanes[lane] = append(lanes[lane], v)
			}
		}
	}
	return lanes, repeats
}

func TestProducerKilled(t *testing.T) {
	if apart(t) {
		return
	}
	producerKilled(t, "embedded", startBroker(t))
}

// producerKilled kills the producer at random points, and starts another one, until one has published everything. The
// lanes hold what an undisturbed run publishes, in its order.
func producerKilled(t *testing.T, kind, brokers string) {
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("LANES", "3")
	const tars, images, pairs = 4, 100, 4 * 100 * 100
	dir := writeTars(t, tars, images)
	r := rand.New(rand.NewPCG(soak.Seed(t, 5), 1))
	for name, args := range map[string][]string{"in order": nil, "shuffled": {"--shuffle", "7", "--buffer", "3000"}} {
		t.Run(name, func(t *testing.T) {
			args = append([]string{"produce", dir, "--final"}, args...)
			t.Setenv("NAMESPACE", strings.ReplaceAll("calm-"+name, " ", "-"))
			mustCommand(t, args...)
			want, repeats := published(t, openNamespace(t))
			if repeats != 0 || len(slices.Concat(want...)) != pairs+len(want) {
				t.Fatalf("an undisturbed run: %d repeats, %d records, want %d", repeats, len(slices.Concat(want...)), pairs+len(want))
			}
			kills, runs, wanted := 0, 0, soak.Choose(10, 200)
			for round := 0; kills < wanted; round++ {
				t.Setenv("NAMESPACE", strings.ReplaceAll(fmt.Sprintf("killed-%s-%d", name, round), " ", "-"))
				mustCommand(t, "topics", "create")
				log := openNamespace(t)
				killed := killUntilDone(t, log, r, pairs, args)
				kills += killed
				runs++
				got, more := published(t, log)
				repeats += more
				// A request may arrive after its producer was killed. It holds what that process published, of which there is
				// about an eighth at most.
				if most := killed * pairs / 8; more > most {
					t.Errorf("round %d: %d repeats after %d kills, want at most %d", round, more, killed, most)
				}
				if !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("round %d: %d of %d records, or another order", round, len(slices.Concat(got...)), pairs+len(want))
				}
				if out := mustCommand(t, args...); !strings.Contains(out, "published 0 pairs") {
					t.Errorf("once more: %s", out)
				}
			}
			t.Logf("%d kills in %d runs left %d repeats", kills, runs, repeats)
			figures.Record(t, figures.Figures{Scenario: "kill -9 of the producer, " + name, Broker: kind, Faults: kills, Records: runs * pairs})
		})
	}
}

// killUntilDone starts producers until one ends by itself, and returns how many it has killed.
func killUntilDone(t *testing.T, log *stream.Log, r *rand.Rand, pairs int64, args []string) (kills int) {
	t.Helper()
	for {
		p := start(t, "produce", "PRODUCE_ARGS="+strings.Join(args, "\n"))
		at := inLog(t, log) + r.Int64N(pairs/8)
		if !p.killWhen(t, func() bool { return kills < 12 && inLog(t, log) >= at }) {
			return kills
		}
		kills++
	}
}

func inLog(t *testing.T, log *stream.Log) (n int64) {
	t.Helper()
	ends := must.Get(log.Ends(t.Context(), schemas.Pairs))(t)
	for _, end := range ends {
		n += end
	}
	return n
}

// TestProduceCommand looks at what users see.
func TestProduceCommand(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "2")
	t.Setenv("NAMESPACE", "")
	mustCommand(t, "topics", "create")
	one, two := writeTars(t, 2, 2), writeTars(t, 1, 3)
	log := openNamespace(t)
	for _, c := range []struct {
		args    string
		records int64
		want    string // in the output, or the error
		fails   bool
	}{
		{"produce --dry-run ONE", 0, "published 400 pairs of 4 images from 2 tars", false},
		{"produce ONE", 400, "published 400 pairs of 4 images from 2 tars", false},
		{"produce ONE", 400, "2  tars were published before", false},
		{"produce --dry-run ONE TWO", 400, `"image 0 of tar 0, caption 0"`, false},
		{"produce --resume=false ONE", 800, "published 400 pairs", false},
		{"produce ONE --holdout 1", 800, "--resume=false", true},
		{"produce ONE --buffer 9", 800, "--shuffle", true},
		{"seal", 802, "", false},
		{"produce ONE --final", 804, "published 0 pairs", false},
		{"produce ONE --final", 804, "published 0 pairs", false},
		{"produce TWO", 804, "final seal", true},
		{"produce TWO --final", 804, "final seal", true},
		{"produce --resume=false ONE", 804, "final seal", true},
		{"seal", 804, "ended with a final seal already", true},
		{"seal --final", 804, "ended with a final seal already", true},
		{"seal --final --lane 1", 804, "ended with a final seal already", true},
	} {
		args := strings.Fields(strings.NewReplacer("ONE", one, "TWO", two).Replace(c.args))
		out, err := command(t, args...)
		if (err != nil) != c.fails || !strings.Contains(out+fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
		if n := inLog(t, log); n != c.records {
			t.Errorf("%s: %d records in the log, want %d", c.args, n, c.records)
		}
	}
}

// TestWatchFolder: files come into a folder that is watched, and are published once.
func TestWatchFolder(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "2")
	t.Setenv("NAMESPACE", "")
	mustCommand(t, "topics", "create")
	from, dir := writeTars(t, 3, 2), t.TempDir()
	log := openNamespace(t)
	p := start(t, "produce", "PRODUCE_ARGS=produce\n--watch\n--interval\n50ms\n"+dir)
	for i := range 3 {
		name := fmt.Sprintf("%05d.tar", i)
		must.Do(t, os.Rename(filepath.Join(from, name), filepath.Join(dir, name)))
		for want := int64(i+1) * 200; inLog(t, log) < want; time.Sleep(time.Millisecond) {
			select {
			case <-p.done:
				t.Fatalf("the watcher has ended: %v\n%s", p.err, p.log)
			default:
			}
		}
	}
	if lanes, repeats := published(t, log); len(slices.Concat(lanes...)) != 600 || repeats != 0 {
		t.Errorf("%d records, %d repeats", len(slices.Concat(lanes...)), repeats)
	}
	p.stop(t)
	for args, want := range map[string]string{"--events kafka:x": "--watch", "--watch --final": "--final", "--watch --interval 0s": "--interval"} {
		if _, err := command(t, append([]string{"produce", dir}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
