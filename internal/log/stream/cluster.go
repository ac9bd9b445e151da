package stream

import (
	"context"

	"github.com/segmentio/kafka-go"
)

// Cluster asks the brokers for the id of their cluster. It returns "" when they do not say.
func (l *Log) Cluster(ctx context.Context) (id string, err error) {
	err = l.retry(ctx, "reading the cluster's id", func(ctx context.Context) error {
		transport := l.freshTransport()
		defer transport.CloseIdleConnections()
		client := kafka.Client{Addr: l.addr, Transport: transport}
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{})
		if err == nil {
			id = answer.ClusterID
		}
		return err
	})
	return id, err
}
