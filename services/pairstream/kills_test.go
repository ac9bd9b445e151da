//go:build cgo

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// stageNames are the services that the tests kill.
var stageNames = []string{"encoder", "indexer", "grouper", "discriminator", "trainer"}

// TestEveryStageKilled kills the process of every stage at random points under load, and in between the broker. It
// writes junk into every lane topic that stages write. All records and all checkpoints that stay are those of an
// undisturbed run.
func TestEveryStageKilled(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	broker, addr := startBrokerOn(t, dir, "")
	t.Cleanup(func() { broker.stop(t) })
	everyStageKilled(t, "embedded", addr, func() {
		broker.kill(t)
		broker, _ = startBrokerOn(t, dir, addr)
	})
}

// everyStageKilled calls breakBrokers once in every round of kills.
func everyStageKilled(t *testing.T, kind, brokers string, breakBrokers func()) {
	t.Setenv("KAFKA_BROKERS", brokers)
	first := soak.Seed(t, 7)
	for seed := first; seed < first+soak.Choose[uint64](1, 4); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { stagesKilled(t, seed, kind, breakBrokers) })
	}
}

func stagesKilled(t *testing.T, seed uint64, kind string, breakBrokers func()) {
	const perKill = 12 // pairs; many of them repeat an image
	rounds := soak.Choose(3, 10)
	r := rand.New(rand.NewPCG(seed, 0))
	t.Setenv("CHECKPOINT_EVERY", "3")
	t.Setenv("CHECKPOINT_KEEP_EVERY", "6")
	t.Setenv("FILTER", `colour: !caption.contains("red"); match: similarity > -0.9 && width > 1`)
	t.Setenv("DEDUPE_IMAGES", "drop")
	t.Setenv("DEDUPE_NEAR", "drop:0.999")
	t.Setenv("STREAM_SESSION_TIMEOUT", map[string]string{"embedded": "1s", "cluster": "3s"}[kind])
	in := setUpPipeline(t, rounds*len(stageNames)*perKill/2)
	t.Setenv("NEIGHBORS_SCOPE", "lane")
	t.Setenv("SEGMENTS_ROOT", in("segments"))

	var want map[string]string
	calmly, disturbed := fmt.Sprint("calm-", seed), fmt.Sprint("killed-", seed)
	t.Setenv("NAMESPACE", calmly)
	t.Setenv("CHECKPOINT_DIR", in("calm"))
	mustCommand(t, "produce", in("scenes"), "--final")
	calm := openNamespace(t)
	mustCommand(t, "up")
	compare(t, "", &want, outcome(t, calmly, in("calm")))
	checkFiltered(t, calm)

	t.Setenv("NAMESPACE", disturbed)
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	must.Do(t, log.EnsureTopics(t.Context()))
	feed := newFeed(t, calm, log)
	running := make(map[string]*fleetMember)
	for _, name := range stageNames {
		running[name] = startMember(t, name)
	}
	var longest time.Duration
	for round := range rounds {
		for _, i := range r.Perm(len(stageNames)) {
			feed.publish(t, perKill)
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			name := stageNames[i]
			since := time.Now()
			running[name].kill(t)
			running[name] = startMember(t, name)
			running[name].awaitReady(t)
			longest = max(longest, time.Since(since))
		}
		if round == 0 {
			writeJunk(t, log)
		}
		breakBrokers()
	}
	feed.publish(t, -1)
	last := running["trainer"]
	if <-last.done; last.err != nil {
		t.Errorf("trainer: %v\n%s", last.err, last.log)
	}
	for _, name := range stageNames[:len(stageNames)-1] {
		running[name].stop(t)
	}
	if lags, err := log.Lag(t.Context(), "trainer", schemas.Scored); err != nil || slices.ContainsFunc(lags, func(l kafka.LaneLag) bool { return l.Committed != l.End }) {
		t.Errorf("the trainer has committed %+v, %v: want the ends of its lanes", lags, err)
	}
	compare(t, "after kills", &want, outcome(t, disturbed, in("killed")))
	compareKept(t, "after kills", in("killed"), in("calm"), 6)
	checkFiltered(t, log)
	checkJunk(t, log)
	figures.Record(t, figures.Figures{
		Scenario: fmt.Sprintf("kill -9 of each of %d services %d times", len(stageNames), rounds), Broker: kind,
		Faults: rounds * (len(stageNames) + 1), Records: recordsIn(t, want), Recovery: longest,
	})
}

// compareKept wants two folders to have the same checkpoints: those of steps that every divides, and the last two.
// Their bytes are equal but for the places in the log, and so are their digests.
func compareKept(t *testing.T, what, folder, with string, every int64) {
	t.Helper()
	want, got := keptIn(t, with), keptIn(t, folder)
	if !maps.Equal(got, want) {
		t.Errorf("%s: the checkpoints are %q, want %q, with the same bytes", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	names := slices.Sorted(maps.Keys(want))
	for i, name := range names {
		if step, ok := trainer.CheckpointStep(name); !ok || i < len(names)-2 && step != int64(i+1)*every {
			t.Errorf("%s: checkpoint %d is %s, want every %d steps and the last two", what, i, name, every)
		}
	}
	if len(names) < 3 {
		t.Errorf("%s: only %q stay, want one besides the last two", what, names)
	}
}

// keptIn sums up each checkpoint of a folder.
func keptIn(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, path := range checkpoints(t, folder) {
		f := must.Get(safetensors.Open(path))(t)
		sum := checkpointDigest(t, path)
		for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
			if key != "pairstream.positions" && key != "pairstream.sha256" {
				sum += fmt.Sprintf("\n%s=%s", key, f.Metadata[key])
			}
		}
		found[filepath.Base(path)] = sum
	}
	return found
}

// checkFiltered wants one record for every pair and seal: an embedding, or the refusal of rule colour for exactly the
// pairs that it names.
func checkFiltered(t *testing.T, log *stream.Log) {
	t.Helper()
	kept, dropped := 0, 0
	for lane := range log.Config().Lanes {
		red := make(map[schemas.PairID]bool)
		for rec, err := range log.Records(t.Context(), schemas.Pairs, lane, stream.Position{}, -1) {
			must.Do(t, err)
			if p, ok := stream.As[*schemas.Pair](rec); ok {
				red[p.ID] = strings.Contains(p.Caption, "red")
			}
		}
		for rec, err := range log.Records(t.Context(), schemas.Embeddings, lane, stream.Position{}, -1) {
			must.Do(t, err)
			r, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err != nil {
				continue // junk
			}
			switch v := r.(type) {
			case *schemas.Embedding:
				kept++
				if red[v.ID] {
					t.Errorf("%q was embedded", v.Caption)
				}
			case *schemas.Refusal:
				dropped++
				if !red[v.ID] || v.Reason != schemas.MaskFiltered || v.Rule != "colour" {
					t.Errorf("refusal %+v", v)
				}
			}
		}
	}
	if kept == 0 || dropped == 0 {
		t.Errorf("%d pairs were kept and %d filtered, want some of both", kept, dropped)
	}
	status := must.Get(inspect.NewCollector(log, 1).Collect(t.Context(), time.Now()))(t)
	a := status.Account
	grouped := a.Closed.Members + a.Closed.Duplicates + a.Closed.Repeats + a.Closed.LeftOut
	t.Log(a)
	if a.Closed.LeftOut == 0 || a.Closed.SameImage == 0 {
		t.Errorf("no pair was left out for its image: %s", a)
	}
	if !a.Adds() || a.Waiting != 0 || a.Open != 0 || grouped != int64(kept) || a.Closed.Filtered["colour"] != int64(dropped) {
		t.Errorf("the account is %+v, want %d in groups, %d filtered, and nothing open", a, kept, dropped)
	}
}

// recordsIn adds up the counts of an outcome.
func recordsIn(t *testing.T, outcome map[string]string) (sum int) {
	t.Helper()
	for name, digest := range outcome {
		n := 0
		if _, err := fmt.Sscan(digest, &n); err != nil && name != "checkpoint" {
			t.Errorf("%s is %q: %v", name, digest, err)
		} else if name != "checkpoint" {
			sum += n
		}
	}
	return sum
}

func openNamespace(t *testing.T) *stream.Log {
	t.Helper()
	log := must.Get(rundir.Connect(t.Context()))(t)
	t.Cleanup(log.Close)
	return log
}

// feed publishes what another namespace has in its pairs, lane by lane in the same order, a little at a time.
type feed struct {
	publisher *stream.Publisher
	lanes     [][]stream.Record
}

// setUpFeed publishes the scenes in one namespace, and returns the log of another one that is fed from it. In that one
// processes are killed.
func setUpFeed(t *testing.T, in func(string) string) (*stream.Log, *feed) {
	t.Helper()
	t.Setenv("NAMESPACE", "source")
	source := openNamespace(t)
	mustCommand(t, "produce", in("scenes"), "--final")
	t.Setenv("NAMESPACE", "killed")
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	must.Do(t, log.EnsureTopics(t.Context()))
	return log, newFeed(t, source, log)
}

func newFeed(t *testing.T, from, to *stream.Log) *feed {
	t.Helper()
	f := &feed{publisher: to.NewPublisher(stream.PublisherOptions{}), lanes: make([][]stream.Record, from.Config().Lanes)}
	for lane := range f.lanes {
		for rec, err := range from.Records(t.Context(), schemas.Pairs, lane, stream.Position{}, -1) {
			must.Do(t, err)
			f.lanes[lane] = append(f.lanes[lane], rec)
		}
	}
	return f
}

// publish writes n records, or all that are left when n is -1. Only then it writes the last one of each lane, its
// seal.
func (f *feed) publish(t *testing.T, n int) {
	t.Helper()
	for lane := range f.lanes {
		part := min(n/len(f.lanes), len(f.lanes[lane])-1)
		if n < 0 {
			part = len(f.lanes[lane])
		}
		for _, rec := range f.lanes[lane][:part] {
			must.Do(t, f.publisher.Copy(t.Context(), rec))
		}
		f.lanes[lane] = f.lanes[lane][part:]
	}
	must.Do(t, f.publisher.Flush(t.Context()))
}

// fleetMember is a service that can be asked whether it is ready.
type fleetMember struct {
	*process
	addr string
}

func startMember(t *testing.T, name string) *fleetMember {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Do(t, l.Close())
	return &fleetMember{start(t, name, "HTTP_ADDR="+addr), addr}
}

// awaitReady waits until the service has its model and owns lanes.
func (m *fleetMember) awaitReady(t *testing.T) {
	t.Helper()
	for {
		if resp, err := http.Get("http://" + m.addr + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-m.done:
			t.Fatalf("%s ended by itself: %v\n%s", m.name, m.err, m.log)
		case <-t.Context().Done():
			t.Fatalf("%s is never ready\n%s", m.name, m.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

const junk = "junk that no stage has written"

// writeJunk puts one message into every lane of every topic that a stage writes.
func writeJunk(t *testing.T, log *stream.Log) {
	t.Helper()
	cfg := log.Config()
	for _, info := range schemas.Catalogue() {
		if !stream.Sequenced(info.Topic) {
			continue
		}
		for lane := range cfg.Lanes {
			must.Do(t, kafkatest.WriteMessage(t.Context(), cfg.Brokers, kafkatest.Message{Topic: info.Topic.Name(cfg.Namespace), Partition: lane, Value: []byte(junk)}))
		}
	}
}

// checkJunk wants each piece of junk among the dead letters, from the stage that reads the topic, and nothing else.
func checkJunk(t *testing.T, log *stream.Log) {
	t.Helper()
	reads := map[schemas.Topic]string{
		schemas.Embeddings: "indexer", schemas.Neighbors: "grouper", schemas.Groups: "grouper", schemas.Features: "grouper",
		schemas.Batches: "discriminator", schemas.Scored: "trainer",
	}
	lanes := log.Config().Lanes
	left := make(map[string]bool)
	for topic := range reads {
		for lane := range lanes {
			left[fmt.Sprint(topic, lane)] = true
		}
	}
	for d, err := range log.DeadLetters(t.Context()) {
		must.Do(t, err)
		place := fmt.Sprint(d.Topic, d.Lane)
		if !left[place] || d.Stage != reads[d.Topic] || string(d.Value) != junk || !strings.HasPrefix(d.Reason, "no seq header") {
			t.Errorf("set aside: %s/%d/%d by %s: %s: %q", d.Topic, d.Lane, d.Offset, d.Stage, d.Reason, d.Value)
		}
		delete(left, place)
	}
	for place := range left {
		t.Errorf("the junk in %s was not set aside", place)
	}
}
