package kafka

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// exchange is a request that kmsg encodes and decodes, sent over a connection of kafka-go's. kafka-go's own codecs know
// fewer requests and older versions, and copy batches into pages. They also trust a batch's claims: they allocate as
// many records and headers as it announces, and decompress without a bound. kmsg leaves batches as bytes.
type exchange struct {
	req     kmsg.Request
	to      route
	version int16                               // 0: the latest that both the brokers and kafka-go know
	write   func(version int16) ([]byte, error) // encodes the request; nil: kmsg does
}

// answer is the answer to an exchange.
type answer struct{ kmsg.Response }

// ApiKey implements protocol.Message.
func (a answer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// ask sends a request, and returns the answer as an R.
func ask[R kmsg.Response](ctx context.Context, c *Client, e *exchange) (resp R, err error) {
	m, err := c.transport.RoundTrip(ctx, c.addr, e)
	if err != nil {
		return resp, err
	}
	a, _ := m.(answer)
	resp, ok := a.Response.(R)
	if !ok {
		return resp, fmt.Errorf("answer to request %s is a %T", kmsg.NameForKey(e.req.Key()), m)
	}
	return resp, nil
}

// route chooses the broker that a request goes to.
type route func(protocol.Cluster) (protocol.Broker, error)

// anyBroker routes a request to a broker of kafka-go's choice.
func anyBroker(protocol.Cluster) (protocol.Broker, error) { return protocol.Broker{ID: -1}, nil }

// brokerOf routes a request to one broker.
func brokerOf(id int32) route {
	return func(cluster protocol.Cluster) (protocol.Broker, error) {
		b, ok := cluster.Brokers[id]
		if !ok {
			return b, fmt.Errorf("the cluster has no broker %d", id)
		}
		return b, nil
	}
}

// leaderOf routes a request to the leader of a lane.
func leaderOf(name string, lane int) route {
	to := rawproduce.Request{Topics: []rawproduce.RequestTopic{{Topic: name, Partitions: []rawproduce.RequestPartition{{Partition: int32(lane)}}}}}
	return to.Broker
}

// ApiKey implements protocol.Message.
func (e *exchange) ApiKey() protocol.ApiKey { return protocol.ApiKey(e.req.Key()) }

// Broker implements [protocol.BrokerMessage].
func (e *exchange) Broker(cluster protocol.Cluster) (protocol.Broker, error) { return e.to(cluster) }

// Required implements [protocol.RawExchanger].
func (e *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	e.req.SetVersion(cmp.Or(e.version, versions[e.ApiKey()]))
	return true
}

// RawExchange sends the request and reads the answer. A connection has one request at a time, so all have the number 0.
func (e *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	var raw []byte
	var err error
	if e.write != nil {
		raw, err = e.write(e.req.GetVersion())
	} else {
		raw = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, e.req, 0)
	}
	if err != nil {
		return nil, err
	}
	if _, err := rw.Write(raw); err != nil {
		return nil, err
	}
	resp := e.req.ResponseKind()
	var head [8]byte // size, number of the request
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size, number := int64(int32(binary.BigEndian.Uint32(head[:])))-4, binary.BigEndian.Uint32(head[4:])
	if number != 0 || size < 0 {
		return nil, fmt.Errorf("answer of %d bytes has the number %d, want that of a %s request", size, number, kmsg.NameForKey(e.req.Key()))
	}
	var body bytes.Buffer
	body.Grow(int(min(size, largeAnswer)) + bytes.MinRead)
	if _, err := io.CopyN(&body, rw, size); err != nil {
		return nil, err
	}
	b := body.Bytes()
	if resp.IsFlexible() { // tags of the head, which no broker sends
		if len(b) == 0 || b[0] != 0 {
			return nil, fmt.Errorf("answer to request %s has tags in its head, want none", kmsg.NameForKey(e.req.Key()))
		}
		b = b[1:]
	}
	return answer{resp}, resp.ReadFrom(b)
}

// largeAnswer is the size above which the buffer of an answer grows as its bytes arrive.
const largeAnswer = 4 << 20
