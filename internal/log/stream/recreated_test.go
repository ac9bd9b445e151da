package stream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestTopicMadeAnew deletes pairs and fills it again at once with more than before. The stage's position lies in the
// middle of the new pairs. The stage does not use it until an operator says so.
func TestTopicMadeAnew(t *testing.T) {
	topicMadeAnew(t, clockSkew, "it was recreated", func(*broker.Broker) {})
}

// TestTopicMadeAnewOnOldBrokers does the same on brokers whose topics have no ids.
func TestTopicMadeAnewOnOldBrokers(t *testing.T) {
	topicMadeAnew(t, 0, "was the topic recreated?", func(b *broker.Broker) {
		b.Cluster().ControlKey(int16(kmsg.ApiVersions), func(raw kmsg.Request) (kmsg.Response, error, bool) {
			b.Cluster().KeepControl()
			resp := raw.ResponseKind().(*kmsg.ApiVersionsResponse)
			resp.SetVersion(raw.GetVersion())
			for key := range int16(kmsg.MaxKey) {
				if r := kmsg.RequestForKey(key); r != nil {
					v := kmsg.NewApiVersionsResponseApiKey()
					v.ApiKey, v.MaxVersion = key, min(r.MaxVersion(), 9) // version 10 of metadata brings the ids
					resp.ApiKeys = append(resp.ApiKeys, v)
				}
			}
			return resp, nil, true
		})
	})
}

func topicMadeAnew(t *testing.T, skew time.Duration, want string, prepare func(*broker.Broker)) {
	b := startBroker(t, broker.Options{})
	prepare(b)
	cfg := testConfig(b.Addr(), "", 1)
	l := openLog(t, cfg)
	l.clockSkew = skew
	put(t, l, pair(0, "old 0"), pair(0, "old 1"))
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	r.stop(t)

	r = start(l, batcherSpec()) // an ordinary restart
	put(t, l, pair(0, "old 2"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 2}, 0)
	r.stop(t)

	deleteTopic(t, l, schemas.Pairs)
	time.Sleep(5 * time.Millisecond) // stamps are in milliseconds
	l = openLog(t, cfg)
	l.clockSkew, l.parkedPause = skew, 20*time.Millisecond
	put(t, l, pair(0, "new 0")) // fewer than before, and more may come at any time
	if got := parked(t, l, batcherSpec()); !strings.Contains(got, want) || strings.Contains(got, "--record") {
		t.Errorf("the lane says %q", got)
	}
	for i := range 4 {
		put(t, l, pair(0, fmt.Sprint("new ", i+1)))
	}
	if got := parked(t, l, batcherSpec()); !strings.Contains(got, want) || !strings.Contains(got, "--record 2") {
		t.Errorf("the lane says %q", got)
	}
	must.Do(t, l.Skip(t.Context(), Skip{Topic: schemas.Pairs, From: Position{Offset: 2}, To: Position{Offset: 3}, Reason: "known"}))
	r = start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 4}, 0)
	r.stop(t)
	put(t, l, pair(0, "new 5"))
	r = start(l, batcherSpec()) // the decision of the operator holds
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 5}, 0)
	r.stop(t)
	wantLines := []string{"embedding of old 0", "embedding of old 1", "embedding of old 2", "embedding of new 3", "embedding of new 4", "embedding of new 5"}
	if got := lines(t, l, schemas.Embeddings, 0); !slices.Equal(got, wantLines) {
		t.Errorf("got %q, want %q", got, wantLines)
	}
}

// TestIdleStageNoticesATopicMadeAnew makes a topic anew beside a stage that has nothing to do. The stage takes its
// lanes up again, as at its next start.
func TestIdleStageNoticesATopicMadeAnew(t *testing.T) {
	for topic, want := range map[schemas.Topic]string{
		schemas.Pairs:      "it was recreated", // and longer than before, so that no offset tells
		schemas.Embeddings: "",                 // the stage's own: it makes the records again
	} {
		t.Run(string(topic), func(t *testing.T) {
			cfg := testConfig(startBroker(t, broker.Options{}).Addr(), "", 1)
			l := openLog(t, cfg)
			l.topicsEvery, l.parkedPause = 20*time.Millisecond, 20*time.Millisecond
			spec := batcherSpec()
			spec.Counters = new(Counters)
			put(t, l, pair(0, "old 0"), pair(0, "old 1"))
			r := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
			deleteTopic(t, l, topic)
			anew := openLog(t, cfg)
			if want == "" {
				awaitSeqs(t, anew, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
				r.stop(t)
				return
			}
			for i := range 5 {
				put(t, anew, pair(0, fmt.Sprint("new ", i)))
			}
			await(t, "the lane is parked", func() bool { return strings.Contains(strings.Join(spec.Counters.States(), ""), want) })
			r.stop(t)
		})
	}
}

// TestIdleFollowerNoticesATopicMadeAnew does the same with the trainer's way to read. Only its start can compare what
// it has in memory with the log, so it ends.
func TestIdleFollowerNoticesATopicMadeAnew(t *testing.T) {
	cfg := testConfig(startBroker(t, broker.Options{}).Addr(), "", 1)
	l := openLog(t, cfg)
	l.topicsEvery = 20 * time.Millisecond
	put(t, l, numbered(schemas.Scored, 0, 0, "value"))
	taken := make(chan bool, 1)
	f := l.Follow(FollowSpec{
		Name: "follower", Topic: schemas.Scored, From: map[int]Position{0: {}}, Counters: new(Counters), ParkedPause: 20 * time.Millisecond,
		Take:    func(context.Context, *FollowedLane, Record) error { taken <- true; return nil },
		Waiting: func(int) (string, bool) { return "scored", false },
	})
	watching, stop := context.WithCancel(t.Context())
	watched, ended := make(chan bool), make(chan error, 1)
	go func() { f.Watch(watching); close(watched) }()
	go func() { ended <- f.Run(t.Context()) }()
	<-taken
	deleteTopic(t, l, schemas.Scored)
	openLog(t, cfg)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "topic scored was recreated") {
		t.Errorf("ended with %v", err)
	}
	stop()
	<-watched
}

func deleteTopic(t *testing.T, l *Log, which schemas.Topic) {
	t.Helper()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	name := l.Name(which)
	topic.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	must.Get(req.RequestWith(t.Context(), kgoClient(t, l)))(t)
}

// TestStagesTopicMadeAnew deletes a topic that a stage writes. Its stage goes on with the seq that is next, at the
// start of the new topic. The reader would wait for ever for a record that lies before its position, and says so
// instead.
func TestStagesTopicMadeAnew(t *testing.T) {
	cfg := testConfig(startBroker(t, broker.Options{}).Addr(), "", 1)
	l := openLog(t, cfg)
	put(t, l, numbered(schemas.Embeddings, 0, 0, "value 0"), numbered(schemas.Embeddings, 0, 1, "value 1"))
	spec := failingSpec(func(Record) error { return nil })
	r := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 1}, 0)
	r.stop(t)
	deleteTopic(t, l, schemas.Embeddings)
	l = openLog(t, cfg)
	l.parkedPause = 20 * time.Millisecond
	put(t, l, numbered(schemas.Embeddings, 0, 2, "value 2"), numbered(schemas.Embeddings, 0, 3, "value 3"))
	if got := parked(t, l, spec); !strings.Contains(got, "seq 3 lies at offset 1, but is due at offset 2 or later: was the topic recreated?") {
		t.Errorf("the lane says %q", got)
	}
}

// TestOutputMadeAnewUnderItsStage makes a topic anew between two writes of a stage. The second lands at the start of
// the new topic, where nobody who reads looks for it. The lane says so at once, and so does its next owner, until
// operators give up what is lost.
func TestOutputMadeAnewUnderItsStage(t *testing.T) {
	cfg := testConfig(startBroker(t, broker.Options{}).Addr(), "", 1)
	l := openLog(t, cfg)
	l.parkedPause, l.saidAfter = 20*time.Millisecond, 20*time.Millisecond
	put(t, l, pair(0, "old 0"), pair(0, "old 1"))
	spec := batcherSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	deleteTopic(t, l, schemas.Embeddings)
	openLog(t, cfg)
	put(t, l, pair(0, "new 2"))
	want := "seq 2 lies at offset 0, so 2 records before it are lost: was the topic recreated?"
	said := ""
	await(t, "the lane is parked, or goes on", func() bool {
		said = strings.Join(spec.Counters.States(), "")
		return strings.Contains(said, want) || spec.Counters.Out.Load() == 3
	})
	if !strings.Contains(said, want) {
		t.Errorf("the stage says %q", said)
	}
	r.stop(t)
	if got := parked(t, l, batcherSpec()); !strings.Contains(got, want) {
		t.Errorf("the next owner says %q", got)
	}
	if err := l.CheckWhole(t.Context(), schemas.Embeddings, 0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a look at the lane: error %v", err)
	}
	damage, err := l.FindDamage(t.Context(), schemas.Embeddings, 0, Position{})
	if err != nil || damage.From.Seq != 0 || damage.To.Seq != 2 {
		t.Fatalf("damage %+v, error %v", damage, err)
	}
	damage.Reason = "nobody needs them"
	must.Do(t, l.Skip(t.Context(), damage))
	put(t, l, pair(0, "new 3"))
	r = start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 3}, 0)
	r.stop(t)
	if got, want := lines(t, l, schemas.Embeddings, 0), []string{"embedding of new 2", "embedding of new 3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeadLetterOfAForgedSeq sets a record aside that a stranger gave a seq. The dead letter keeps the record's
// headers, and its topic has no seqs: nothing was made anew.
func TestDeadLetterOfAForgedSeq(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	forged := pair(0, "poison")
	forged.Headers = append(forged.Headers, kafka.Header{Key: schemas.HeaderSeq, Value: []byte("9223372036854775807")})
	put(t, l, pair(0, "before"), forged, pair(0, "behind"))
	spec := batcherSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	isParked := func() bool { return strings.Contains(strings.Join(spec.Counters.States(), ""), "damaged") }
	await(t, "the lane is parked, or goes on", func() bool { return isParked() || spec.Counters.Out.Load() == 2 })
	if isParked() {
		t.Errorf("the stage says %q", spec.Counters.States())
	}
	r.stop(t)
	var offsets []int64
	for d, err := range l.DeadLetters(t.Context()) {
		must.Do(t, err)
		offsets = append(offsets, d.Offset)
	}
	if !slices.Equal(offsets, []int64{1}) {
		t.Errorf("the records at %v were set aside, want that at 1", offsets)
	}
}
