//go:build cgo

package main

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/forkserver"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestServicesRefuseBadSettings starts services that cannot start. Each exits non-zero, and its last line says which
// setting is to blame and what its value is.
func TestServicesRefuseBadSettings(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	broker := startBroker(t)
	t.Setenv("KAFKA_BROKERS", broker)
	t.Setenv("LANES", "4")
	mustCommand(t, "topics", "create")
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	busy := taken.Addr().String()
	unused := "127.0.0.1:1"

	all := []string{"encoder", "indexer", "grouper", "discriminator", "trainer"}
	some := []string{"grouper", "trainer"} // one without and one with tensors: the rest share their code
	withImages := []string{"encoder", "discriminator", "trainer"}
	cases := []struct {
		name     string
		services []string
		env      []string
		want     []string
	}{
		{"unreachable broker", all, []string{"KAFKA_BROKERS=" + unused}, []string{"KAFKA_BROKERS=" + unused, "nothing listens there"}},
		{"plaintext broker asked for TLS", some, []string{"KAFKA_TLS=true"}, []string{"KAFKA_TLS=true", "does not speak TLS"}},
		{"another number of lanes", some, []string{"LANES=3"}, []string{"LANES=3 wants 3", "has 4 partitions"}},
		{"not a number", some, []string{"LANES=several"}, []string{`LANES="several"`, "want a whole number"}},
		{"port in use", some, []string{"HTTP_ADDR=" + busy}, []string{`HTTP_ADDR is "` + busy + `"`, "address already in use"}},
		{"no folder of images", withImages, []string{"BUCKET_ROOTS="}, []string{"BUCKET_ROOTS is empty"}},
		{"missing encoder", []string{"encoder"}, []string{"ENCODER_CHECKPOINT=/nowhere"}, []string{`ENCODER_CHECKPOINT is "/nowhere"`}},
		{"missing Con-D", []string{"discriminator"}, []string{"COND_CHECKPOINT=/nowhere"}, []string{`COND_CHECKPOINT is "/nowhere"`}},
		{"missing first weights", []string{"trainer"}, []string{"TRAIN_INIT=/nowhere"}, []string{`TRAIN_INIT is "/nowhere"`}},
		{"search space", []string{"grouper"}, []string{"SEARCH_SPACE=50"}, []string{"SEARCH_SPACE (M) is 50", "BATCH_SIZE"}},
	}
	// Weights are looked for last, so that the other cases need none.
	base := []string{
		"BUCKET_ROOTS=file://" + dir, "CHECKPOINT_DIR=" + filepath.Join(dir, "checkpoints"), "TORCH_THREADS=1",
		"ENCODER_CHECKPOINT=" + dir, "COND_CHECKPOINT=" + dir, "TRAIN_INIT=" + dir,
	}
	for _, c := range cases {
		for _, service := range c.services {
			t.Run(c.name+"/"+service, func(t *testing.T) {
				started := time.Now()
				p := start(t, service, slices.Concat(base, c.env)...)
				var exit forkserver.ExitError
				if <-p.done; !errors.As(p.err, &exit) {
					t.Errorf("got %v, want an exit status of its own", p.err)
				}
				t.Logf("after %v", time.Since(started).Round(time.Millisecond))
				lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
				last := lines[len(lines)-1]
				if !strings.HasPrefix(last, service+": ") || strings.Contains(p.log.String(), "goroutine ") {
					t.Errorf("the last words are not one clear line:\n%s", p.log)
				}
				for _, want := range c.want {
					if !strings.Contains(last, want) {
						t.Errorf("%q does not say %q", last, want)
					}
				}
			})
		}
	}
}
