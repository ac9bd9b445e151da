package producer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/awssnssqs"
	"gocloud.dev/pubsub/gcppubsub"

	"github.com/pairstream/pairstream/internal/crawl/notification"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
)

// arrival is a notification. Ack confirms that all of its objects are published.
type arrival struct {
	uris []string
	ack  func()
}

// events receives notifications of new objects.
type events interface {
	Run(ctx context.Context, to chan<- arrival) error
	Close(ctx context.Context) error
}

// openEvents opens the source of --events.
func openEvents(ctx context.Context, log *stream.Log, where string) (events, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("--events: %w", err)
	}
	switch u.Scheme {
	case "kafka":
		var brokers []string
		if u.Host != "" {
			brokers = strings.Split(u.Host, ",")
		}
		topic := strings.Trim(u.Path, "/") + u.Opaque
		f, err := log.OpenForeign(ctx, brokers, topic)
		if err != nil {
			return nil, fmt.Errorf("--events=%s: %w", where, err)
		}
		return kafkaEvents{f}, nil
	case awssnssqs.SQSScheme, gcppubsub.Scheme:
		mux := new(pubsub.URLMux)
		mux.RegisterSubscription(awssnssqs.SQSScheme, new(awssnssqs.URLOpener))
		mux.RegisterSubscription(gcppubsub.Scheme, pubsub.DefaultURLMux()) // its opener looks up credentials; gcppubsub.URLOpener has none
		s, err := mux.OpenSubscriptionURL(context.WithoutCancel(ctx), u)   // credentials are renewed for as long as the process runs
		if err != nil {
			return nil, fmt.Errorf("--events=%s: %w", where, err)
		}
		return cloudEvents{s}, nil
	}
	return nil, fmt.Errorf("--events=%s: want kafka:TOPIC, kafka://host:port/TOPIC, awssqs://URL-OF-QUEUE?region=... or gcppubsub://projects/PROJECT/subscriptions/NAME", where)
}

// kafkaEvents are notifications in a topic of Kafka.
type kafkaEvents struct{ *kafka.Foreign }

// Run implements events.
func (k kafkaEvents) Run(ctx context.Context, to chan<- arrival) error {
	return k.Foreign.Run(ctx, func(ctx context.Context, value []byte) error {
		return hand(ctx, to, arrival{notification.Objects(value, nil), func() {}})
	})
}

// Close implements events.
func (k kafkaEvents) Close(context.Context) error { return k.Foreign.Close() }

// cloudEvents are notifications in a queue of a cloud. The queue repeats unacknowledged ones.
type cloudEvents struct{ subscription *pubsub.Subscription }

// Run implements events.
func (c cloudEvents) Run(ctx context.Context, to chan<- arrival) error {
	for {
		m, err := c.subscription.Receive(ctx)
		if ctx.Err() != nil { // the error may come from closing it
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("receiving notifications: %w", err)
		}
		if err := hand(ctx, to, arrival{notification.Objects(m.Body, m.Metadata), m.Ack}); err != nil {
			return err
		}
	}
}

// Close implements events.
func (c cloudEvents) Close(ctx context.Context) error { return c.subscription.Shutdown(ctx) }

func hand(ctx context.Context, to chan<- arrival, a arrival) error {
	select {
	case to <- a:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// within returns the tars of an arrival below the watched paths, with the options of these.
func within(uris, watched []string) (tars []string) {
	for _, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil || !strings.EqualFold(path.Ext(u.Path), ".tar") {
			continue
		}
		for _, w := range watched {
			place, err := url.Parse(w)
			if err != nil || !shard.IsRemote(w) || place.Scheme != u.Scheme || place.Host != u.Host {
				continue
			}
			prefix := strings.TrimSuffix(place.Path, "/")
			if u.Path == prefix || strings.HasPrefix(u.Path, prefix+"/") {
				u.RawQuery = place.RawQuery
				tars = append(tars, u.String())
				break
			}
		}
	}
	return tars
}

// gone reports whether the object of a notification no longer exists.
func gone(err error) bool { return errors.Is(err, shard.ErrMissing) }
