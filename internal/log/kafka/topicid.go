package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// topicIDVersion is the first version of metadata that has the ids of topics. Kafka has it since 2.8. kafka-go asks for
// version 8 at most, so this package writes the request itself.
const topicIDVersion = 10

// maxMetadataBytes bounds the answer, which is of one topic.
const maxMetadataBytes = 16 << 20

// TopicID returns the id that the brokers gave a topic when it was made, or "" where they give none. It does not wait for a
// topic that does not exist.
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
		id, err = c.askTopicID(ctx, t)
		if exists = !errors.Is(err, kafka.UnknownTopicOrPartition); !exists {
			return nil
		}
		return err
	})
	if err == nil && !exists {
		err = Transient(fmt.Errorf("topic %s %w", c.Name(t), errNoTopic))
	}
	return id, err
}

// askTopicID asks over a connection of its own, after kafka-go has authenticated it.
func (c *Client) askTopicID(ctx context.Context, t schemas.Topic) (string, error) {
	var errs []error
	for _, broker := range c.cfg.Brokers {
		id, err := c.askBroker(ctx, broker, t)
		if err == nil {
			return id, nil
		}
		errs = append(errs, fmt.Errorf("broker %s: %w", broker, err))
	}
	return "", errors.Join(errs...)
}

func (c *Client) askBroker(ctx context.Context, broker string, t schemas.Topic) (string, error) {
	var raw net.Conn
	dialer := kafka.Dialer{ClientID: clientID, SASLMechanism: c.security.sasl, DialFunc: func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		raw, err = c.security.dialAlive(ctx, network, address)
		return raw, err
	}}
	conn, err := dialer.DialContext(ctx, "tcp", broker)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	name, req := c.Name(t), kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	req.SetVersion(topicIDVersion)
	if _, err := raw.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 0)); err != nil {
		return "", err
	}
	return readTopicID(raw)
}

// readTopicID reads the answer about one topic.
func readTopicID(r io.Reader) (string, error) {
	var head [9]byte // size, number of the request, no tags
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	size := int64(binary.BigEndian.Uint32(head[:])) - 5
	if size < 0 || size > maxMetadataBytes || head[8] != 0 {
		return "", fmt.Errorf("an answer of %d bytes with %d tags, want at most %d and none", size, head[8], maxMetadataBytes)
	}
	body, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return "", err
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(topicIDVersion)
	if err := resp.ReadFrom(body); err != nil {
		return "", err
	}
	switch {
	case len(resp.Topics) != 1:
		return "", fmt.Errorf("an answer of %d topics, want one", len(resp.Topics))
	case resp.Topics[0].ErrorCode != 0:
		return "", kafka.Error(resp.Topics[0].ErrorCode)
	}
	return fmt.Sprintf("%x", resp.Topics[0].TopicID), nil
}
