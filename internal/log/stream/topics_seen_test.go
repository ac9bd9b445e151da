package stream

import (
	"net/netip"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestTopicsAreKnownEverywhere creates topics in a cluster whose second broker learns of them late. The next command
// may ask that broker, and must not be told that they do not exist.
func TestTopicsAreKnownEverywhere(t *testing.T) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(2)))(t)
	t.Cleanup(cluster.Close)
	asked := 0
	cluster.ControlKey(int16(kmsg.Metadata), func(raw kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := raw.(*kmsg.MetadataRequest)
		if cluster.CurrentNode() != 1 || asked == 3 {
			return nil, nil, false
		}
		asked++
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.SetVersion(req.GetVersion())
		for _, want := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = want.Topic, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, topic)
		}
		for node, addr := range cluster.ListenAddrs() {
			at := netip.MustParseAddrPort(addr)
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Host, b.Port = int32(node), at.Addr().String(), int32(at.Port())
			resp.Brokers = append(resp.Brokers, b)
		}
		return resp, nil, true
	})
	openLog(t, testConfig(cluster.ListenAddrs()[0], "", 1))
	if asked != 3 {
		t.Errorf("the second broker was asked %d times, want until it knows the topics", asked)
	}
	if has, err := openLog(t, testConfig(cluster.ListenAddrs()[1], "", 1)).Has(t.Context(), schemas.Pairs); !has || err != nil {
		t.Errorf("the second broker knows pairs: %t, %v", has, err)
	}
}
