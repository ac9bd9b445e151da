package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// metadata asks a broker for the metadata of topics; nil: of all. kafka-go would answer from a cache.
func (c *Client) metadata(ctx context.Context, at route, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	return ask[*kmsg.MetadataResponse](ctx, c, &exchange{req: req, to: at})
}

func topicNamed(name string) kmsg.MetadataRequestTopic {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	return t
}

// Cluster asks the brokers for the id of their cluster, "" if they do not tell.
func (c *Client) Cluster(ctx context.Context) (id string, err error) {
	err = c.Retry(ctx, "reading the cluster's id", func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		resp, err := c.metadata(ctx, anyBroker, req)
		if err == nil && resp.ClusterID != nil {
			id = *resp.ClusterID
		}
		return err
	})
	return id, err
}

// Namespaces lists the other namespaces of the brokers that this process may see, sorted.
func (c *Client) Namespaces(ctx context.Context) ([]string, error) {
	all := make(map[string]bool)
	err := c.Retry(ctx, "listing topics", func(ctx context.Context) error {
		resp, err := c.metadata(ctx, anyBroker, kmsg.NewPtrMetadataRequest())
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			all[*t.Topic] = true
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
