package main

import (
	"context"

	"github.com/pairstream/pairstream/internal/stream"
)

// cluster is a broker in memory with the log of a crawl.
type cluster struct {
	*stream.Log
	broker *stream.Broker
}

// begin starts a broker and writes the crawl into its log.
func (f fleet) begin(ctx context.Context) (*cluster, error) {
	broker, err := stream.StartBroker(stream.BrokerOptions{})
	if err != nil {
		return nil, err
	}
	c := &cluster{broker: broker}
	if c.Log, err = f.open(ctx, broker.Addr()); err == nil {
		err = c.EnsureTopics(ctx)
	}
	if err == nil {
		err = f.Crawl.publish(ctx, c.Log)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *cluster) end() {
	if c.Log != nil {
		c.Close()
	}
	_ = c.broker.Close() // it is in memory
}
