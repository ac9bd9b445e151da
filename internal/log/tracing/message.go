package tracing

import (
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Message describes a record of a topic by OpenTelemetry's conventions for messaging.
type Message struct {
	Topic  string // by the brokers' name
	Lane   int
	Key    []byte // nil: none
	Offset int64  // -1: unknown
	Bytes  int    // of its value
}

// Sent returns the attributes of a span that publishes the message.
func (m Message) Sent() []attribute.KeyValue {
	return append(m.facts(), semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend)
}

// Received returns the attributes of a span in which a consumer group takes the message.
func (m Message) Received(group string) []attribute.KeyValue {
	return append(m.facts(), semconv.MessagingOperationName("poll"), semconv.MessagingOperationTypeReceive, semconv.MessagingConsumerGroupName(group))
}

func (m Message) facts() []attribute.KeyValue {
	facts := []attribute.KeyValue{
		semconv.MessagingSystemKafka, semconv.MessagingDestinationName(m.Topic), semconv.MessagingDestinationPartitionID(strconv.Itoa(m.Lane)),
		semconv.MessagingMessageBodySize(m.Bytes),
	}
	if m.Key != nil {
		key := string(m.Key)
		if !utf8.ValidString(key) { // the protocol refuses it, with all other spans of the request
			key = hex.EncodeToString(m.Key)
		}
		facts = append(facts, semconv.MessagingKafkaMessageKey(key))
	}
	if m.Offset >= 0 {
		facts = append(facts, semconv.MessagingKafkaOffset(int(m.Offset)))
	}
	return facts
}

// Lane returns the attribute that every span of one lane has.
func Lane(lane int) attribute.KeyValue { return attribute.Int("pairstream.lane", lane) }
