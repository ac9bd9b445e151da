package inspect

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

var rewrite = flag.Bool("rewrite", false, "write the golden text anew; review the difference")

// golden compares text with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		must.Do(t, os.WriteFile(path, got, 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; printed\n%s\nwant\n%s", err, got, want)
	}
}

func ago(d time.Duration) *time.Time {
	t := noon.Add(-d)
	return &t
}

func exampleCheck() *schemas.Check {
	return &schemas.Check{Positives: 288, AUC: 0.97, Least: 0.4, Precision: &schemas.Precision{
		Above: 0.8, Value: 0.72, Low: 0.49, High: 0.83, Base: 0.061, Confirmed: 0.08, Candidates: 1152, Negatives: 1063, Judged: 40, Right: 30,
	}}
}

func exampleStatus() *Status {
	lag := func(e, i, g, d, tr int64) map[string]int64 {
		return map[string]int64{"encoder": e, "indexer": i, "grouper": g, "discriminator": d, "trainer": tr}
	}
	return &Status{
		Namespace: "exp1", Time: noon,
		Stages: []Stage{
			{"encoder", schemas.Pairs, 1_204_000, 1, ago(1500 * time.Millisecond)},
			{"indexer", schemas.Embeddings, 0, -1, ago(3 * time.Minute)},
			{"grouper", schemas.Groups, 0, -1, ago(5 * time.Hour)},
			{"discriminator", schemas.Batches, 7, 0, ago(-time.Second)},
			{"trainer", schemas.Scored, 31, 0, nil},
		},
		Lanes: []Lane{
			{0, 12_034_567, lag(204_000, 0, 0, 7, 31), OpenGroup{2, 2_000_000, 5_000_000}, StateOpen, nil, connections(exampleCheck()), ""},
			{1, 12_000_001, lag(1_000_000, 0, 0, 0, 0), OpenGroup{}, StateEnded, []LaneState{{"grouper", 1, "waits for features"}}, nil, (&schemas.Check{Positives: 258, AUC: 0.512, Least: 0.55}).String()},
		},
		Topics: []Topic{
			{schemas.Pairs, 24_034_568, 0, ago(0)},
			{schemas.Embeddings, 22_830_568, 12, ago(2 * time.Second)},
			{schemas.Features, 0, 0, nil},
		},
		Waiting:     Waiting{7, 31},
		DeadLetters: []DeadCount{{"encoder", "image missing", 1_234}, {"trainer", "other", 1}},
		Training:    &Training{Kind: "checkpoint", Step: 1200, Values: map[string]float64{"loss": 3.14159}, Checkpoint: "data/step-1200", Time: *ago(49 * time.Hour)},
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	now := exampleStatus()
	before := exampleStatus()
	before.Time = noon.Add(-2 * time.Second)
	before.Topics[0].Records -= 5000
	before.Topics[1].Records -= 15
	must.Do(t, now.Print(&out, before))
	golden(t, "status.txt", out.Bytes())

	out.Reset()
	empty := &Status{Time: noon, Lanes: []Lane{{State: StateOpen}}}
	must.Do(t, empty.Print(&out, nil))
	golden(t, "status-empty.txt", out.Bytes())
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -1: "-1"} {
		if got := Count(n); got != want {
			t.Errorf("%d is shown as %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", time.Second: "1 s ago", 2*time.Minute - 1: "119 s ago", 2 * time.Minute: "2 min ago",
		2 * time.Hour: "2 h ago", 48 * time.Hour: "2 days ago",
	} {
		if got := Age(d); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
	for r, want := range map[float64]string{0: "0.0", 1.26: "1.3", 99.94: "99.9", 100: "100", 12345.6: "12,345"} {
		if got := Rate(r); got != want {
			t.Errorf("%g a second is shown as %s, want %s", r, got, want)
		}
	}
}
