package producer

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const perTar = 2 // pairs of a tar of writeTars

// writeTars writes tars of one scene with two captions each, and returns their folder.
func writeTars(t *testing.T, tars int) string {
	t.Helper()
	o := scenes.Defaults()
	o.Scenes, o.PerShard, o.Captions, o.Side = tars, 1, perTar, 32
	dir := t.TempDir()
	must.Do(t, scenes.WriteDir(t.Context(), dir, o, nil))
	return dir
}

// inLog returns the number of records of the topic pairs.
func inLog(t *testing.T, log *stream.Log) (n int64) {
	t.Helper()
	for _, end := range must.Get(log.Ends(t.Context(), schemas.Pairs))(t) {
		n += end
	}
	return n
}

// open opens the log of a new broker, with what a producer needs.
func open(t *testing.T) *stream.Log {
	t.Helper()
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	must.Do(t, log.EnsureTopics(t.Context(), schemas.Pairs, schemas.Sources, schemas.Control))
	return log
}

func TestPublishAndPreview(t *testing.T) {
	log, dir := open(t), writeTars(t, 3)
	var out bytes.Buffer
	sum := must.Get(Preview(t.Context(), log, []string{dir}, dataset.ProduceOptions{Parallel: 2}, &out))(t)
	if n := inLog(t, log); n != 0 || sum.Pairs != 3*perTar || strings.Count(out.String(), "  image ") != 3*perTar {
		t.Errorf("a preview: %d records, %+v, and it shows\n%s", n, sum, &out)
	}
	for _, want := range []int64{3 * perTar, 0} { // the second time nothing is new
		sum = must.Get(Publish(t.Context(), log, []string{dir}, dataset.ProduceOptions{Parallel: 2}, nil, Pace{Rate: 1e6}))(t)
		if n := inLog(t, log); n != 3*perTar || int64(sum.Pairs) != want {
			t.Errorf("%d records, %d pairs published, want %d and %d", n, sum.Pairs, 3*perTar, want)
		}
	}
	out.Reset()
	PrintSummary(&out, sum)
	if want := "published 0 pairs of 0 images from 0 tars\n       3  tars were published before, and have not changed\n"; out.String() != want {
		t.Errorf("the summary is\n%swant\n%s", &out, want)
	}
}

// A watcher publishes what lies there and what comes, and its end is no error.
func TestKeepPublishesWhatComes(t *testing.T) {
	log, from, dir := open(t), writeTars(t, 3), t.TempDir()
	names := must.Get(filepath.Glob(filepath.Join(from, "*.tar")))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Watch{On: true, Every: 5 * time.Millisecond}.Keep(ctx, log, []string{dir}, dataset.ProduceOptions{Parallel: 1}, Pace{}, new(bytes.Buffer))
	}()
	for i, name := range names {
		must.Do(t, os.Rename(name, filepath.Join(dir, filepath.Base(name))))
		for inLog(t, log) < int64(perTar*(i+1)) {
			select {
			case err := <-ended:
				t.Fatalf("the watcher has ended: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if n := inLog(t, log); n != int64(perTar*len(names)) || len(names) != 3 {
		t.Errorf("%d records of %d tars", n, len(names))
	}
}

func TestWhatDoesNotGoTogether(t *testing.T) {
	on := Watch{On: true, Every: time.Second}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"events alone":     {(&Watch{Events: "kafka:x"}).Validate(dataset.ProduceOptions{}, false), "--events has no effect without --watch"},
		"no interval":      {(&Watch{On: true}).Validate(dataset.ProduceOptions{}, false), "--interval is 0s"},
		"weights":          {on.Validate(dataset.ProduceOptions{Weights: []int{1}}, false), "--weights has no effect"},
		"a dry run":        {on.Validate(dataset.ProduceOptions{}, true), "--dry-run"},
		"a seal":           {on.Validate(dataset.ProduceOptions{Final: true}, false), "--final"},
		"a negative rate":  {(&Pace{Rate: -1}).Validate(nil), "--rate is -1"},
		"a negative lag":   {(&Pace{MaxLag: -1}).Validate(nil), "--max-lag is -1"},
		"too many weights": {(&Pace{Weights: []int{1, 2}}).Validate([]string{"a"}), "2 numbers for 1 paths"},
		"a weight of zero": {(&Pace{Weights: []int{0}}).Validate([]string{"a"}), "--weights is [0]"},
		"another scheme":   {second(openEvents(t.Context(), nil, "ftp://x")), "want kafka:TOPIC"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, c.err, c.want)
		}
	}
	if err := errors.Join(on.Validate(dataset.ProduceOptions{}, false), (&Watch{}).Validate(dataset.ProduceOptions{Final: true}, true), (&Pace{Rate: 1, Weights: []int{3, 1}}).Validate([]string{"a", "b"})); err != nil {
		t.Error(err)
	}
}

func second(_ events, err error) error { return err }
