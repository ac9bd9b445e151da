//go:build s3

package producer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
)

// TestS3Arrivals: of arrivals that come together one names an object that is gone, and another one no tar. All others
// are published, and every sender has its acknowledgement.
func TestS3Arrivals(t *testing.T) {
	log := open(t)
	server := s3test.Start(t)
	bucket := server.Bucket(t, "crawl")
	var all []arrival
	acks := 0
	add := func(name string) {
		all = append(all, arrival{[]string{"s3://crawl/new/" + name}, func() { acks++ }})
	}
	for _, path := range must.Get(filepath.Glob(filepath.Join(writeTars(t, 3), "*.tar")))(t) {
		name := filepath.Base(path)
		must.Do(t, bucket.WriteAll(t.Context(), "new/"+name, must.Get(os.ReadFile(path))(t), nil))
		add(name)
	}
	add("gone.tar")
	add("notes.txt")
	all = append(all, all[0])
	publisher := log.NewPublisher(stream.PublisherOptions{})
	var out bytes.Buffer
	w := &watcher{log: log, paths: []string{server.URL("crawl/new/")}, out: &out, ledger: Remember(onlog.New(log, publisher))}
	for range 2 {
		must.Check(t, w.take(t.Context(), all))
		if n := inLog(t, log); n != 3*perTar {
			t.Errorf("%d records, want %d", n, 3*perTar)
		}
	}
	if acks != 2*len(all) {
		t.Errorf("%d acknowledgements of %d arrivals", acks, 2*len(all))
	}
	server.Stop(t)
	if err := w.take(t.Context(), all[:1]); err == nil || acks != 2*len(all) {
		t.Errorf("%v, %d acknowledgements, although the store is down", err, acks)
	}
	must.Check(t, errors.Join(w.stores.Close(), publisher.Close(t.Context())))
}
