package replay

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestDescribeRefusesWhatIsNotFinished describes lanes that are not finished. A lane is finished when its end has
// come through every topic, and there are features for every batch.
func TestDescribeRefusesWhatIsNotFinished(t *testing.T) {
	log := openLog(t, logtest.Broker(t), "production")
	refused := func(want string) {
		t.Helper()
		if _, err := Describe(t.Context(), log, DescribeOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
		if m, err := Describe(t.Context(), log, DescribeOptions{Open: true}); err != nil || m.ended() {
			t.Errorf("with --open: %+v, %v", m, err)
		}
	}
	refused("has not ended: `pairstream seal --final` ends it")
	for lane := range testLanes {
		publish(t, log, lane, "a pair", final)
	}
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Groups, schemas.Batches, schemas.Scored} {
		refused("has not ended in " + string(topic) + " yet: wait until `pairstream status` calls it done")
		for lane := range testLanes {
			must.Do(t, p.PublishSeq(t.Context(), topic, lane, 0, stream.Mark{}, final))
		}
		must.Do(t, p.Flush(t.Context()))
	}
	m, err := Describe(t.Context(), log, DescribeOptions{})
	if err != nil || !m.ended() || m.check() != nil || m.Pairs[0].Records != 2 || m.Pairs[0].End != 2 || m.Topics[3].Lanes[1].Records != 1 {
		t.Errorf("manifest %+v, %v", m, err)
	}
	must.Do(t, p.PublishSeq(t.Context(), schemas.Features, 0, 0, stream.Mark{}, final))
	must.Do(t, p.Flush(t.Context()))
	refused("lane 0 has 0 batches and features of 1")
	publish(t, log, 0, "a late pair")
	refused("lane 0 has not ended")
	must.Do(t, p.Close(t.Context()))
}
