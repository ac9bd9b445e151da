//go:build kafka

package stream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestSuiteOnKafka runs on Apache Kafka what TestSuite runs on the embedded broker. It also runs a sample of the
// injected crashes, and of the owners that wake up after they have lost their lane. With SOAK=1 it runs all of them.
func TestSuiteOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	on := brokers{"cluster", strings.Join(cluster.Brokers(), ",")}
	t.Run("requests that kafka-go does not know", func(t *testing.T) { strangeRequests(t, on.brokers) })
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) { s.run(t, on) })
	}
	r := rand.New(rand.NewPCG(soak.Seed(t, 4), 0))
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			want, passed := s.undisturbed(t, on.brokers, "undisturbed")
			more, _ := s.extended().undisturbed(t, on.brokers, "extended")
			var crashes, owners tally
			for _, point := range []crashPoint{afterRead, afterProcess, beforeWrite, afterWrite, beforeCommit} {
				for _, n := range soak.Choose([]int{r.IntN(passed[point])}, upTo(passed[point])) {
					t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
						crashes.add(t, s.crash(t, on.brokers, point, n, want), want)
					})
				}
			}
			for _, n := range soak.Choose([]int{r.IntN(passed[beforeWrite])}, upTo(passed[beforeWrite])) {
				t.Run(fmt.Sprint("paused before write ", n), func(t *testing.T) {
					s.twoOwners(t, on.brokers, n, more)
					owners.add(t, 1, more)
				})
			}
			crashes.record(t, on, "crashes: "+s.name)
			owners.record(t, on, "two owners: "+s.name)
		})
	}
}

// strangeRequests asks a cluster for what kafka-go has no call for, or answers from a cache.
func strangeRequests(t *testing.T, brokers string) {
	l := openLog(t, testConfig(brokers, "strange", 1))
	put(t, l, pair(0, "one"), pair(0, "two"))
	id := must.Get(l.TopicID(t.Context(), schemas.Pairs))(t)
	cluster := must.Get(l.Cluster(t.Context()))(t)
	others := must.Get(openLog(t, testConfig(brokers, "stranger", 1)).Namespaces(t.Context()))(t)
	if id == "" || cluster == "" || !slices.Contains(others, "strange") {
		t.Errorf("topic %q of cluster %q, namespaces %q", id, cluster, others)
	}
	must.Do(t, kafka.DeleteRecords(t.Context(), l.Config().Brokers, l.Name(schemas.Pairs), 0, 1))
	if got := lines(t, l, schemas.Pairs, 0); !slices.Equal(got, []string{"two"}) {
		t.Errorf("behind the deleted record there are %q", got)
	}
	must.Do(t, kafka.DeleteTopics(t.Context(), l.Config().Brokers, "strange"))
	await(t, "the topics are gone", func() bool { return !must.Get(l.Has(t.Context(), schemas.Pairs))(t) })
}

func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// TestFaultsOfKafkaPass kills, pauses and restarts brokers while two processes' worth of owners run a stage under
// load. In the end every pair that was acknowledged has been processed, once and in order.
func TestFaultsOfKafkaPass(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	const lanes = 3
	all := []int{0, 1, 2}
	cfg := testConfig(strings.Join(cluster.Brokers(), ","), "faults", lanes)
	cfg.Linger, cfg.RequestTimeout = 5*time.Millisecond, 3*time.Second
	l := openLog(t, cfg)
	first, second := start(l, batcherSpec()), start(openLog(t, cfg), batcherSpec())

	sent := 0
	ctx, stopLoad := context.WithCancel(t.Context())
	loaded := make(chan error, 1)
	p := l.NewPublisher(PublisherOptions{})
	go func() {
		for ctx.Err() == nil {
			if err := p.enqueue(t.Context(), pair(sent%lanes, fmt.Sprint("pair ", sent))); err != nil {
				loaded <- err
				return
			}
			sent++
			time.Sleep(time.Millisecond)
		}
		loaded <- p.Close(t.Context())
	}()
	must := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	var longest time.Duration
	faults := -1 // the first time, nothing has happened
	goesOn := func(what string) {
		t.Helper()
		since := time.Now()
		for _, lane := range all {
			b, err := l.Bounds(t.Context(), schemas.Pairs, lane)
			must(err)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: b.End}, lane)
		}
		took := time.Since(since)
		t.Logf("%s: all lanes have caught up after %v", what, took.Round(10*time.Millisecond))
		longest = max(longest, took)
		faults++
		must(cluster.WaitInSync(t.Context()))
	}
	goesOn("undisturbed")
	for lane := range lanes {
		leader, err := cluster.Leader("faults.embeddings", lane)
		must(err)
		must(cluster.Kill(leader))
		time.Sleep(time.Second)
		must(cluster.Restart(leader))
		goesOn(fmt.Sprint("leader of lane ", lane, " killed"))
	}
	leader, err := cluster.Leader("faults.pairs", 0)
	must(err)
	must(cluster.Pause(leader))
	time.Sleep(20 * time.Second)
	must(cluster.Resume(leader))
	goesOn("a broker paused for 20 s")
	var restarts errgroup.Group // all at once: one broker alone has no quorum to become ready with
	for i := range cluster.Size() {
		must(cluster.Kill(i))
	}
	for i := range cluster.Size() {
		restarts.Go(func() error { return cluster.Restart(i) })
	}
	must(restarts.Wait())
	goesOn("all brokers killed and restarted")

	stopLoad()
	must(<-loaded)
	found := make(map[string]bool)
	for _, lane := range all {
		b, err := l.Bounds(t.Context(), schemas.Pairs, lane)
		must(err)
		awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: b.End - 1}, lane)
		pairs, embeddings := lines(t, l, schemas.Pairs, lane), lines(t, l, schemas.Embeddings, lane)
		for i, v := range pairs {
			found[v] = true
			pairs[i] = "embedding of " + v
		}
		if !slices.Equal(pairs, embeddings) {
			t.Errorf("lane %d: %d pairs, %d embeddings, or another order", lane, len(pairs), len(embeddings))
		}
	}
	first.stop(t)
	second.stop(t)
	if len(found) != sent {
		t.Errorf("%d different pairs in the log, want %d", len(found), sent)
	}
	figures.Record(t, figures.Figures{
		Scenario: "brokers killed, paused, restarted", Broker: "cluster", Faults: faults, Records: len(found), Recovery: longest,
	})
}

const testPassword = "correct horse"

// TestKafkaRefuses checks the lines that a refused connection ends in. They are the same on Apache Kafka as with the
// embedded broker.
func TestKafkaRefuses(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{
		Brokers: 1, TLS: true, ClientAuth: true, SASL: []string{"PLAIN", "SCRAM-SHA-512"}, Users: map[string]string{"user": testPassword},
		Settings: map[string]string{"group.min.session.timeout.ms": "1000"},
	})
	cert, key := cluster.ClientCertificate()
	good := testConfig(cluster.Brokers()[0], "", 1)
	good.TLS, good.TLSCA, good.TLSCert, good.TLSKey = true, cluster.CA(), cert, key
	good.SASL, good.SASLUser, good.SASLPassword = "SCRAM-SHA-512", "user", testPassword
	r := start(openLog(t, good), batcherSpec())
	openPlain := good
	openPlain.SASL = "PLAIN"
	l := openLog(t, openPlain)
	put(t, l, pair(0, "one"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 0)
	r.stop(t)
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"wrong password":          {func(c *Config) { c.SASLPassword = "wrong horse" }, "KAFKA_SASL_USER=user, KAFKA_SASL_PASSWORD: the broker refused them"},
		"wrong PLAIN password":    {func(c *Config) { c.SASL, c.SASLPassword = "PLAIN", "wrong horse" }, "KAFKA_SASL_USER=user, KAFKA_SASL_PASSWORD: the broker refused them"},
		"mechanism not offered":   {func(c *Config) { c.SASL = "SCRAM-SHA-256" }, "KAFKA_SASL=SCRAM-SHA-256: the broker does not offer this mechanism"},
		"no password":             {func(c *Config) { c.SASL, c.SASLUser, c.SASLPassword = "", "", "" }, "KAFKA_SASL: is empty, and the broker hung up"},
		"another authority":       {func(c *Config) { c.TLSCA = cluster.OtherCA() }, "KAFKA_TLS_CA=" + cluster.OtherCA()},
		"another name":            {func(c *Config) { c.TLSServerName = "kafka.example" }, "KAFKA_TLS_SERVER_NAME=kafka.example"},
		"no client certificate":   {func(c *Config) { c.TLSCert, c.TLSKey = "", "" }, "KAFKA_TLS_CERT=: the broker refused the TLS connection"},
		"plaintext to a TLS port": {func(c *Config) { c.TLS, c.TLSCA, c.TLSCert, c.TLSKey = false, "", "", "" }, "KAFKA_TLS=false: the broker's port speaks TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			l, err := Connect(t.Context(), cfg, Options{})
			if err == nil {
				l.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}
