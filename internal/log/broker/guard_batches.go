package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// guardBatches makes the embedded broker refuse batches as Apache Kafka does. kfake counts offsets by the number of
// records that a batch claims: a negative one gives offsets out twice, and one of 2^31 exhausts them. kfake also
// changes times that claim to be the broker's own without updating the checksum.
func guardBatches(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req, ok := r.(*kmsg.ProduceRequest)
		if !ok || plausible(req) {
			return nil, nil, false
		}
		return refusal(req), nil, true
	})
}

func plausible(req *kmsg.ProduceRequest) bool {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if !plausibleBatch(p.Records) {
				return false
			}
		}
	}
	return true
}

// plausibleBatch reports whether a batch's claims are plausible. It accepts bytes that are no batch, because kfake
// itself refuses them.
func plausibleBatch(b []byte) bool {
	if len(b) < batchHead || b[batchMagic] != 2 {
		return true
	}
	attributes, count := head(b).attributes(), head(b).count()
	most := len(b) - batchHead
	if attributes&attrCodec != 0 {
		most = maxRequestBytes // decompressed, they may be many
	}
	return attributes&attrLogAppendTime == 0 && count > 0 && int(count) <= most/leastRecordBytes
}

func refusal(req *kmsg.ProduceRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.InvalidRecord.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
