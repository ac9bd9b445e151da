//go:build cgo && (torture || kafka)

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
	"github.com/pairstream/pairstream/schemas"
)

// maxRSS is the most memory that a process of the pipeline takes, whatever strangers send. The decoders of a process
// take 128 MiB together (internal/content/imaging), libtorch with its threads some 280 MiB.
const maxRSS = 512 << 20

// floodRecords of a megabyte are more than is read ahead.
const floodRecords = 300

// probePatience ends a test whose lane is blocked. It is no promise.
const probePatience = 3 * time.Minute

// rack sends hostile things to a running encoder, one lane, and a good pair behind each. The good pair has to come
// through before the next thing is sent.
type rack struct {
	t        *testing.T
	log      *stream.Log
	pictures string // folder
	probes   int
	encoder  *process
	embedded map[schemas.PairID]bool
	reader   *stream.Reader
	out      *stream.Publisher

	sent, refused int
	worst         time.Duration
	worstName     string
	peak          func() int64     // of the encoder's memory
	most          int64            // what was said of it
	names         map[int64]string // of records, by the offset behind them
}

func newRack(t *testing.T, in func(string) string, encoder *process, peak func() int64) *rack {
	t.Helper()
	log := openNamespace(t)
	r := &rack{t: t, log: log, pictures: in("pictures"), encoder: encoder, peak: peak, names: map[int64]string{}, embedded: map[schemas.PairID]bool{}}
	must.Do(t, os.MkdirAll(r.pictures, 0o755))
	r.reader = log.OpenReader(schemas.Embeddings, 0, stream.Position{}, stream.ReaderOptions{})
	t.Cleanup(func() { r.reader.Close() })
	r.out = log.NewPublisher(stream.PublisherOptions{})
	return r
}

// publish sends a pair whose image lies in a file of its own.
func (r *rack) publish(encoded []byte, caption string) schemas.PairID {
	r.t.Helper()
	path := filepath.Join(r.pictures, strconv.Itoa(r.sent*1000+r.probes))
	must.Do(r.t, os.WriteFile(path, encoded, 0o644))
	p := &schemas.Pair{ImageID: schemas.NewImageID(encoded), Caption: caption, Image: &schemas.ImageRef{URI: "file://" + path, Size: int64(len(encoded))}}
	p.ID = schemas.NewPairID(p.ImageID, caption)
	must.Do(r.t, r.out.Publish(r.t.Context(), schemas.Pairs, 0, p))
	must.Do(r.t, r.out.Flush(r.t.Context()))
	return p.ID
}

// probe sends a good pair and waits until it is embedded.
func (r *rack) probe(name string) {
	r.t.Helper()
	r.probes++
	started := time.Now()
	want := r.publish([]byte(picture(r.t, byte(r.probes))), fmt.Sprintf("a grey picture of number %d", r.probes))
	ctx, cancel := context.WithTimeout(r.t.Context(), probePatience)
	defer cancel()
	for !r.embedded[want] {
		rec, err := r.reader.Next(ctx)
		if err != nil {
			r.t.Fatalf("a good pair behind %q does not come through: %v\n%s", name, err, r.encoder.log)
		}
		value := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(r.t)
		if e, ok := value.(*schemas.Embedding); ok {
			if r.embedded[e.ID] {
				r.t.Errorf("pair %s is embedded twice, behind %q", e.ID, name)
			}
			r.embedded[e.ID] = true
		}
	}
	if took := time.Since(started); took > r.worst {
		r.worst, r.worstName = took, name
	}
	if peak := r.peak(); peak > r.most+16<<20 {
		r.t.Logf("%s: the encoder's peak memory rises from %d to %d MiB", name, r.most>>20, peak>>20)
		r.most = peak
	}
}

// flood sends large records without waiting for any, and a good pair behind them.
func (r *rack) flood(records int) {
	r.t.Helper()
	for i := range records {
		r.write(torture.Large(i))
	}
	r.probe("a flood")
}

func (r *rack) end() int64 {
	r.t.Helper()
	bounds := must.Get(r.log.Bounds(r.t.Context(), schemas.Pairs, 0))(r.t)
	return bounds.End
}

// throwImages sends each image as a pair. What cannot be embedded has to be set aside.
func (r *rack) throwImages(images []torture.Image) {
	r.t.Helper()
	for _, image := range images {
		r.sent++
		r.publish(image.Encode(), "a picture that is "+image.Name)
		r.probe(image.Name)
	}
}

// throwRecords sends each batch as it is.
func (r *rack) throwRecords(records []torture.Record) {
	r.t.Helper()
	for _, record := range records {
		r.write(record)
		r.probe(record.Name)
	}
}

func (r *rack) write(record torture.Record) {
	r.t.Helper()
	cfg := r.log.Config()
	r.sent++
	before := r.end()
	err := kafkatest.WriteBatch(r.t.Context(), cfg.Brokers, schemas.Pairs.Name(cfg.Namespace), 0, record.Batch())
	if (err == nil) != (r.end() > before) {
		r.t.Errorf("%q: the broker says %v, and the lane ends at %d after %d", record.Name, err, r.end(), before)
	}
	r.names[r.end()-1] = record.Name
	if err != nil {
		r.refused++
		r.t.Logf("%s: refused by the broker: %v", record.Name, err)
	}
}

// account compares the lane with what became of it. Every record is embedded, set aside or a seal, and nothing twice.
func (r *rack) account() (published, aside int) {
	r.t.Helper()
	set := map[int64]bool{}
	for d, err := range r.log.DeadLetters(r.t.Context()) {
		must.Do(r.t, err)
		if set[d.Offset] {
			r.t.Errorf("offset %d is set aside twice", d.Offset)
		}
		set[d.Offset] = true
		aside++
	}
	for rec, err := range r.log.Records(r.t.Context(), schemas.Pairs, 0, stream.Position{}, -1) {
		must.Do(r.t, err)
		if rec.Schema == schemas.SchemaSeal {
			continue
		}
		published++
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		p, isPair := value.(*schemas.Pair)
		embedded := err == nil && isPair && r.embedded[p.ID]
		if embedded == set[rec.Offset] {
			r.t.Errorf("pair at offset %d (%s; %s, %d bytes, %v): embedded is %v, set aside is %v; want exactly one",
				rec.Offset, r.names[rec.Offset], rec.Schema, len(rec.Value), err, embedded, set[rec.Offset])
		}
	}
	return published, aside
}

// watchMemory follows the peak memory of a process until it ends.
func watchMemory(t *testing.T, p *process) (peak func() int64) {
	t.Helper()
	var mu sync.Mutex
	var most int64
	read := func() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
		if err != nil {
			return // it has just ended
		}
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		number, _, _ := strings.Cut(rest, "kB")
		if kilobytes, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64); err == nil {
			mu.Lock()
			most = max(most, kilobytes<<10)
			mu.Unlock()
		}
	}
	go func() {
		for {
			select {
			case <-p.done:
				return
			case <-time.After(50 * time.Millisecond):
				read()
			}
		}
	}()
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// freeAddr returns an address that nothing listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// series counts the series that a process offers.
func series(t *testing.T, addr string) (n int) {
	t.Helper()
	response := must.Get(http.Get("http://" + addr + "/metrics"))(t)
	defer response.Body.Close()
	text := must.Get(io.ReadAll(response.Body))(t)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// throwHTTP takes every connection of the metrics and more, sends headers that never end, and wants health to answer.
func throwHTTP(t *testing.T, metrics, health string) {
	t.Helper()
	for i := range 400 {
		c, err := net.DialTimeout("tcp", metrics, time.Second)
		if err != nil {
			break // the backlog is full as well
		}
		defer c.Close()
		text := "GET /metrics HTTP/1.1\r\nHost: x\r\n"
		if i%2 == 0 {
			text += "X: " + strings.Repeat("x", 64<<10)
		}
		must.Do(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		_, _ = io.WriteString(c, text) // the server may have closed it already
	}
	response, err := http.Get("http://" + health + "/healthz")
	if err != nil {
		t.Fatalf("health does not answer while metrics are taken: %v", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health answers %s while metrics are taken", response.Status)
	}
}

// tortured runs the pipeline under everything that strangers may send.
func tortured(t *testing.T, broker, addr string, images []torture.Image, records []torture.Record) {
	t.Setenv("KAFKA_BROKERS", addr)
	t.Setenv("NAMESPACE", "torture")
	in := setUpPipeline(t, 8)
	t.Setenv("LANES", "1")
	t.Setenv("EPOCHS", "1")
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))
	mustCommand(t, "topics", "create")
	metrics, health := freeAddr(t), freeAddr(t)
	encoder := start(t, "encoder", "HTTP_ADDR="+metrics, "HEALTH_ADDR="+health)
	peaks := map[string]func() int64{"encoder": watchMemory(t, encoder)}
	r := newRack(t, in, encoder, peaks["encoder"])
	r.probe("nothing")
	r.worst = 0 // the model has been loaded meanwhile
	few := series(t, metrics)
	r.throwImages(images)
	r.throwRecords(records)
	if many := series(t, metrics); many > few+50 {
		t.Errorf("the encoder has %d series, and had %d before", many, few)
	}
	throwHTTP(t, metrics, health)
	r.probe("HTTP")
	r.flood(floodRecords)
	encoder.stop(t)
	encoder = start(t, "encoder") // it has to get past what lies in the lane
	peaks["encoder again"] = watchMemory(t, encoder)
	r.encoder, r.peak = encoder, peaks["encoder again"]
	r.probe("a new start")
	must.Do(t, r.out.Close(t.Context()))
	mustCommand(t, "seal", "--final")
	awaitFinalSeal(t, r.log, encoder, schemas.Embeddings, 0)
	published, aside := r.account()

	var others []*process
	for _, name := range []string{"indexer", "grouper", "discriminator"} {
		p := start(t, name)
		others, peaks[name] = append(others, p), watchMemory(t, p)
	}
	trainer := start(t, "trainer")
	peaks["trainer"] = watchMemory(t, trainer)
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range append(others, encoder) {
		p.stop(t)
	}
	r.trained()
	report(t, r, broker, published, aside, peaks)
}

// trained wants every embedded pair in a mini-batch that was trained on.
func (r *rack) trained() {
	r.t.Helper()
	seen := map[schemas.PairID]bool{}
	for b, err := range stream.Values[*schemas.ScoredBatch](r.t.Context(), r.log, schemas.Scored, 0) {
		must.Do(r.t, err)
		for _, sample := range b.Samples {
			seen[sample.ID] = true
		}
	}
	for id := range r.embedded {
		if !seen[id] {
			r.t.Errorf("pair %s was embedded, and is in no mini-batch", id)
		}
	}
}

func report(t *testing.T, r *rack, broker string, published, aside int, peaks map[string]func() int64) {
	t.Helper()
	var memory []string
	for name, peak := range peaks {
		memory = append(memory, fmt.Sprintf("%s %d MiB", name, peak()>>20))
		if peak() > maxRSS {
			t.Errorf("%s has had %d MiB, want at most %d", name, peak()>>20, maxRSS>>20)
		}
	}
	slices.Sort(memory)
	figures.Record(t, figures.Figures{Scenario: "torture", Broker: broker, Faults: r.sent, Records: published, Recovery: r.worst, Note: fmt.Sprintf(
		"worst behind %q; %d refused by the broker, %d set aside, %d good pairs trained on; peak memory: %s",
		r.worstName, r.refused, aside, len(r.embedded), strings.Join(memory, ", "))})
}
