package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Cluster asks the brokers for the id of their cluster. It returns "" when they do not say.
func (c *Client) Cluster(ctx context.Context) (id string, err error) {
	err = c.Retry(ctx, "reading the cluster's id", func(ctx context.Context) error {
		transport := c.freshTransport()
		defer transport.CloseIdleConnections()
		client := kafka.Client{Addr: c.addr, Transport: transport}
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{})
		if err == nil {
			id = answer.ClusterID
		}
		return err
	})
	return id, err
}

// Namespaces lists the other namespaces of the brokers that this process may see, sorted.
func (c *Client) Namespaces(ctx context.Context) ([]string, error) {
	all := make(map[string]bool)
	err := c.Retry(ctx, "listing topics", func(ctx context.Context) error {
		transport := c.freshTransport()
		transport.MetadataTopics = nil
		defer transport.CloseIdleConnections()
		answer, err := (&kafka.Client{Addr: c.addr, Transport: transport}).Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return err
		}
		for _, t := range answer.Topics {
			all[t.Name] = true
		}
		return nil
	})
	var found []string
	for name := range all {
		namespace, ok := strings.CutSuffix(name, string(schemas.Pairs))
		namespace, dotted := strings.CutSuffix(namespace, ".")
		if ok && (dotted || namespace == "") && namespace != c.cfg.Namespace && all[schemas.Control.Name(namespace)] {
			found = append(found, namespace)
		}
	}
	slices.Sort(found)
	return found, err
}
