package producer

import (
	"context"
	"slices"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPubSubEvents reads notifications of Google Cloud Storage from an emulator of Pub/Sub, which sends again what
// nobody acknowledges.
func TestPubSubEvents(t *testing.T) {
	server := pstest.NewServer()
	t.Cleanup(func() { must.Check(t, server.Close()) })
	t.Setenv("PUBSUB_EMULATOR_HOST", server.Addr)
	topic, subscription := "projects/p/topics/new", "projects/p/subscriptions/new"
	must.Get(server.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}))(t)
	must.Get(server.GServer.CreateSubscription(t.Context(), &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: 10}))(t)
	from := must.Get(openEvents(t.Context(), nil, "gcppubsub://"+subscription))(t)
	ctx, cancel := context.WithCancel(t.Context())
	arriving, ended := make(chan arrival), make(chan error, 1)
	go func() { ended <- from.Run(ctx, arriving) }()
	for event, want := range map[string][]string{"OBJECT_FINALIZE": {"gs://crawl/new/a.tar"}, "OBJECT_DELETE": nil} {
		id := server.Publish(topic, []byte(`{"kind":"storage#object","bucket":"crawl","name":"new/a.tar"}`), map[string]string{"eventType": event})
		select {
		case a := <-arriving:
			if !slices.Equal(a.uris, want) {
				t.Errorf("%s: %q, want %q", event, a.uris, want)
			}
			a.ack()
		case err := <-ended:
			t.Fatalf("%s: %v", event, err)
		}
		if m := server.Message(id); m == nil {
			t.Errorf("%s: message %s is not there", event, id)
		}
	}
	cancel()
	must.Do(t, from.Close(t.Context())) // whether it notices the one or the other first, the end is an interruption
	if err := <-ended; interrupt.Failure(err) != nil || err == nil {
		t.Errorf("the end: %v", err)
	}
	for _, m := range server.Messages() {
		if m.Acks == 0 {
			t.Errorf("message %s has no acknowledgement", m.ID)
		}
	}
}
