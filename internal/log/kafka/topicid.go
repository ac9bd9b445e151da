package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// topicIDVersion is the first version of metadata with the ids of topics, in Kafka since 2.8. kafka-go asks for version
// 8 at most.
const topicIDVersion = 10

// TopicID returns the id that the brokers gave a topic when it was created, or "" if they give none. It does not wait
// for a topic that does not exist.
func (c *Client) TopicID(ctx context.Context, t schemas.Topic) (id string, err error) {
	exists := true
	err = c.Retry(ctx, "asking for the id of topic "+c.Name(t), func(ctx context.Context) error {
		versions, err := c.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
		if err != nil {
			return err
		}
		for _, v := range versions.ApiKeys {
			if v.ApiKey == int(protocol.Metadata) && v.MaxVersion < topicIDVersion {
				return nil
			}
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = append(req.Topics, topicNamed(c.Name(t)))
		resp, err := ask[*kmsg.MetadataResponse](ctx, c, &exchange{req: req, to: anyBroker, version: topicIDVersion})
		switch {
		case err != nil:
			return err
		case len(resp.Topics) != 1:
			return fmt.Errorf("an answer of %d topics, want one", len(resp.Topics))
		}
		switch err := kafka.Error(resp.Topics[0].ErrorCode); err {
		case 0:
			id = fmt.Sprintf("%x", resp.Topics[0].TopicID)
			return nil
		case kafka.UnknownTopicOrPartition:
			exists = false
			return nil
		default:
			return err
		}
	})
	if err == nil && !exists {
		err = Transient(fmt.Errorf("topic %s %w", c.Name(t), errNoTopic))
	}
	return id, err
}
