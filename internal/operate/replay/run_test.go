package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func pairs(lane, from, to int) []any {
	var out []any
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("pair %d of lane %d", i, lane))
	}
	return out
}

// original runs a pipeline to its end, in two parts. Between them it repeats records in every topic that has seals,
// so that offsets and seqs differ.
func original(t *testing.T, broker string) (*stream.Log, *Manifest) {
	t.Helper()
	log := openLog(t, broker, "production")
	p := pipeline{model: "m1", spool: "/spool", seals: 1}
	for lane := range testLanes {
		publish(t, log, lane, append(pairs(lane, 0, 4), pause)...)
	}
	must.Do(t, p.run(log)(t.Context()))
	again := log.NewPublisher(stream.PublisherOptions{})
	for lane := range testLanes {
		for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Groups, schemas.Batches, schemas.Scored} {
			last, found, err := log.LastRecord(t.Context(), topic, lane)
			if err != nil || !found || last.Schema != schemas.SchemaSeal {
				t.Fatalf("%s, lane %d ends with %+v, %v", topic, lane, last, err)
			}
			mark, err := stream.MarkOf(last)
			must.Do(t, err)
			must.Do(t, again.PublishSeq(t.Context(), topic, lane, last.Seq, mark, pause))
		}
	}
	must.Do(t, again.Close(t.Context()))
	for lane := range testLanes {
		publish(t, log, lane, append(pairs(lane, 4, 9+lane), final)...)
	}
	p.seals = 2
	must.Do(t, p.run(log)(t.Context()))
	m, err := Describe(t.Context(), log, DescribeOptions{Settings: map[string]string{"SEED": "7"}})
	must.Do(t, err)
	return log, m
}

func run(t *testing.T, m *Manifest, from, to *stream.Log, stages Runner) *Report {
	t.Helper()
	r, err := Run(t.Context(), Options{Manifest: m, Original: from, Replayed: to, Stages: stages, Patience: time.Hour})
	must.Do(t, err)
	return r
}

// TestReplayTakesTombstonesOver replays what has been forgotten since, also where the replay's namespace was there
// before.
func TestReplayTakesTombstonesOver(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	to := openLog(t, broker, "exp")
	must.Get(from.AddTombstones(t.Context(), map[string][]byte{"image/00112233445566778899aabbccddeeff": []byte("{}")}))(t)
	var seen int
	p := pipeline{model: "m1", spool: "/spool/exp", seals: 2}
	r := run(t, m, from, to, func(ctx context.Context) error {
		seen = len(must.Get(to.Tombstones(ctx))(t))
		return p.run(to)(ctx)
	})
	var out bytes.Buffer
	must.Do(t, r.Print(&out))
	if seen != 1 || r.Tombstones != 1 || !strings.Contains(out.String(), "; 1 tombstones apply to the replay") {
		t.Errorf("the stages know of %d tombstones, want 1; it prints\n%s", seen, out.String())
	}
}

func TestReplay(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	if !m.ended() || m.Pairs[1].Records != 12 || m.Seed != "7" || len(m.Topics) != 6 {
		t.Fatalf("manifest %+v", m)
	}
	if got := fmt.Sprint(m.Models); got != "[{embeddings m1} {scored con-d}]" {
		t.Errorf("models %s", got)
	}
	// The spool has another folder in a replay.
	like := func(namespace string) pipeline {
		return pipeline{model: "m1", spool: "/spool/" + namespace, seals: 2}
	}

	t.Run("equal, with two owners of each stage", func(t *testing.T) {
		t.Parallel()
		to := openLog(t, broker, "equal")
		p := like("equal")
		p.owners = 2
		for _, again := range []bool{false, true} { // the second time, all is there
			r := run(t, m, from, to, p.run(to))
			if !r.Equal() || r.Err() != nil || r.Stalled || r.Copied != 23 || len(r.Results) != 12 {
				t.Errorf("again %t: report %+v", again, r)
			}
			if got := r.Results[0]; got.Topic != schemas.Embeddings || got.Moved != 9 || got.Records != 11 {
				t.Errorf("again %t: embeddings of lane 0: %+v", again, got)
			}
			if got := r.Results[4]; got.Topic != schemas.Groups || got.Moved != 0 || !got.Equal {
				t.Errorf("again %t: groups of lane 0: %+v", again, got)
			}
		}
	})
	t.Run("another model", func(t *testing.T) {
		t.Parallel()
		to := openLog(t, broker, "model")
		p := like("model")
		p.model = "m2"
		r := run(t, m, from, to, p.run(to))
		if got := r.Results[1]; got.Equal || got.Records != 0 || got.Differs != `record 0: model: "m1", not "m2"` {
			t.Errorf("embeddings %+v", got)
		}
		if got := r.Results[4]; !got.Equal {
			t.Errorf("groups, which do not tell models apart: %+v", got)
		}
		if err := r.Err(); err == nil || err.Error() != "the replay differs in 2 of 12 lanes" {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a pair is refused", func(t *testing.T) {
		t.Parallel()
		to := openLog(t, broker, "refused")
		p := like("refused")
		p.refuse = "pair 8 of lane 1"
		var told []Result
		r, err := Run(t.Context(), Options{
			Manifest: m, Original: from, Replayed: to, Stages: p.run(to), Patience: time.Hour,
			Differs: func(x Result) { told = append(told, x) },
		})
		must.Do(t, err)
		var differ []string
		for _, x := range r.Results {
			if !x.Equal {
				differ = append(differ, fmt.Sprintf("%s/%d", x.Topic, x.Lane))
			}
		}
		if got := strings.Join(differ, " "); got != "embeddings/1 neighbors/1 groups/1 batches/1 scored/1 features/1" || len(told) != 6 {
			t.Errorf("lanes that differ: %s; told %+v", got, told)
		}
		if got := r.Results[1]; got.Records != 9 || !strings.HasPrefix(got.Differs, "record 9: caption: byte 5 is ") {
			t.Errorf("embeddings %+v", got)
		}
	})
	t.Run("another folder of the spool", func(t *testing.T) {
		t.Parallel()
		to := openLog(t, broker, "folder")
		r := run(t, m, from, to, like("elsewhere").run(to))
		want := `record 0: image.uri: "file:///spool/lane-00000/00000000000000000000.tar", not "file:///spool/elsewhere…`
		if got := r.Results[0]; got.Differs[:60] != want[:60] {
			t.Errorf("embeddings %+v", got)
		}
	})
}

// An operator has let the trainer pass over a batch. The replay's trainer does so as well.
func TestReplayFollowsSkips(t *testing.T) {
	broker := logtest.Broker(t)
	from := openLog(t, broker, "production")
	p := pipeline{model: "m1", seals: 1}
	for lane := range testLanes {
		publish(t, from, lane, append(pairs(lane, 0, 9), final)...)
	}
	must.Do(t, from.Skip(t.Context(), stream.Skip{
		Topic: schemas.Scored, Lane: 1, From: stream.Position{Offset: 1, Seq: 1}, To: stream.Position{Offset: 2, Seq: 2}, Reason: "a bad batch",
	}))
	must.Do(t, p.run(from)(t.Context()))
	m, err := Describe(t.Context(), from, DescribeOptions{})
	must.Do(t, err)
	to := openLog(t, broker, "again")
	for range 2 { // the second time, all is there
		if r := run(t, m, from, to, p.run(to)); !r.Equal() || r.Results[9].Records != 6 || r.Results[11].Records != 5 {
			t.Errorf("report %+v", r)
		}
	}
	skips, err := to.Skips(t.Context())
	if err != nil || len(skips) != 1 || skips[0].Reason != "a bad batch" {
		t.Errorf("the replay's skips are %+v (%v)", skips, err)
	}
}

func TestReplayGoesOn(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	p := pipeline{model: "m1", spool: "/spool", seals: 2}

	to := openLog(t, broker, "exp")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Manifest: m, Original: from, Replayed: to, Patience: time.Hour, Stages: func(ctx context.Context) error {
		cancel() // as soon as the pairs are copied
		return ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if got := run(t, m, from, to, p.run(to)); !got.Equal() {
		t.Errorf("report %+v", got)
	}

	part := openLog(t, broker, "part") // lane 0 is copied in part, lane 1 not at all
	publish(t, part, 0, pairs(0, 0, 3)...)
	if got := run(t, m, from, part, p.run(part)); !got.Equal() {
		t.Errorf("report %+v", got)
	}
}

func TestReplayRefuses(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	none := func(context.Context) error { return errors.New("the stages were started") }
	try := func(namespace, want string, m *Manifest, before ...any) {
		t.Helper()
		to := openLog(t, broker, namespace)
		publish(t, to, 1, before...)
		_, err := Run(t.Context(), Options{Manifest: m, Original: from, Replayed: to, Stages: none, Patience: time.Hour})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	try("production", `choose another namespace than "production": it is the original's`, m)
	try("other", "copying pairs of lane 1: choose another namespace: offset 1 there holds another record than offset 1 of the original", m,
		"pair 0 of lane 1", "another pair")
	try("more", "it holds 13 pairs, want 12", m, append(append(append(pairs(1, 0, 4), pause), pairs(1, 4, 10)...), final, "one more")...)

	changed := *m
	changed.Pairs = append([]Range(nil), m.Pairs...)
	changed.Pairs[1].Digest = strings.Repeat("0", 64)
	try("changed", "the manifest is of another log", &changed)
	changed.Pairs = append([]Range(nil), m.Pairs...)
	changed.Pairs[1].End = 99
	try("longer", "the log ends at offset 12, the run at 99: the manifest is of another log", &changed)
	changed = *m
	changed.Namespace = "staging"
	try("wrong", `the manifest is of namespace "staging", the original's is "production"`, &changed)
	changed = *m
	changed.Lanes = 3
	try("lanes", "the manifest has 3 lanes", &changed)
	try("failing", "running the stages: the stages were started", m)
}

// TestReplayChecksTheOriginal replays with a manifest whose digests and counts do not fit the original.
func TestReplayChecksTheOriginal(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	to := openLog(t, broker, "exp")
	p := pipeline{model: "m1", spool: "/spool", seals: 2}
	for want, change := range map[string]func(*Lane){
		"comparing groups, lane 1: the original's digest is":                                   func(l *Lane) { l.Digest = strings.Repeat("0", 64) },
		"comparing groups, lane 1: the original has only 6 records, the manifest says 1000000": func(l *Lane) { l.Records = 1_000_000 },
	} {
		changed := *m
		changed.Topics = append([]Topic(nil), m.Topics...)
		groups := &changed.Topics[2]
		groups.Lanes = append([]Lane(nil), groups.Lanes...)
		change(&groups.Lanes[1])
		_, err := Run(t.Context(), Options{Manifest: &changed, Original: from, Replayed: to, Stages: p.run(to), Patience: time.Hour})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestReplayOfAnOpenRun replays a run that goes on, as far as it was described.
func TestReplayOfAnOpenRun(t *testing.T) {
	broker := logtest.Broker(t)
	from := openLog(t, broker, "production")
	p := pipeline{model: "m1", spool: "/spool", seals: 1}
	for lane := range testLanes {
		publish(t, from, lane, append(pairs(lane, 0, 4), pause)...)
	}
	must.Do(t, p.run(from)(t.Context()))
	if _, err := Describe(t.Context(), from, DescribeOptions{}); err == nil || !strings.Contains(err.Error(), "has not ended: `pairstream seal --final` ends it, and --open describes") {
		t.Errorf("error %v", err)
	}
	m, err := Describe(t.Context(), from, DescribeOptions{Open: true})
	must.Do(t, err)
	if m.ended() {
		t.Errorf("manifest %+v", m)
	}
	publish(t, from, 0, pairs(0, 4, 8)...) // more comes meanwhile
	publish(t, from, 1, final)
	p.seals = 1000
	to := openLog(t, broker, "exp")
	if r := run(t, m, from, to, p.run(to)); !r.Equal() {
		t.Errorf("report %+v", r)
	}

	idle := openLog(t, broker, "idle")
	r, err := Run(t.Context(), Options{
		Manifest: m, Original: from, Replayed: idle, Patience: 20 * time.Millisecond,
		Stages: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	must.Do(t, err)
	if r.Equal() || !r.Stalled || r.Results[0].Differs != "record 0: the replay has only 0 of 5" {
		t.Errorf("report %+v", r)
	}
	var out bytes.Buffer
	must.Do(t, r.Print(&out))
	if got := out.String(); !strings.Contains(got, "embeddings  0     0        differs at record 0: the replay has only 0 of 5\n") ||
		!strings.Contains(got, "10 pairs were copied; 0 records in 0 lanes are equal, 12 lanes differ; no record came for as long as --patience, so the stages were stopped\n") {
		t.Errorf("printed\n%s", got)
	}
}

// Every record is equal, and a trainer that does not end is stopped after the patience. The report says so.
func TestReplayWithoutEnd(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	to := openLog(t, broker, "exp")
	p := pipeline{model: "m1", spool: "/spool", seals: 2}
	r, err := Run(t.Context(), Options{
		Manifest: m, Original: from, Replayed: to, Patience: 3 * time.Second, Trains: true,
		Stages: func(ctx context.Context) error {
			if err := p.run(to)(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		},
	})
	must.Do(t, err)
	if !r.Equal() || r.Stalled || !r.Unfinished {
		t.Errorf("report %+v", r)
	}
	var out bytes.Buffer
	must.Do(t, r.Print(&out))
	if !strings.Contains(out.String(), "lanes are equal; training did not end by itself, so its last step and checkpoint may be missing\n") {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestReplayReportsProgress(t *testing.T) {
	broker := logtest.Broker(t)
	from, m := original(t, broker)
	to := openLog(t, broker, "exp")
	p := pipeline{model: "m1", spool: "/spool", seals: 2}
	told := make(chan []Progress, 1)
	_, err := Run(t.Context(), Options{
		Manifest: m, Original: from, Replayed: to, Patience: 4 * time.Second, // a quarter of it passes between reports
		Stages: func(ctx context.Context) error {
			select { // nothing is done before Progress was called
			case first := <-told:
				if len(first) != 6 || first[0] != (Progress{schemas.Embeddings, 0, 23}) {
					t.Errorf("progress %+v", first)
				}
			case <-ctx.Done():
				t.Error("no report of progress")
			}
			return p.run(to)(ctx)
		},
		Progress: func(now []Progress) {
			select {
			case told <- now:
			default:
			}
		},
	})
	must.Do(t, err)
}
