package broker

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An answer begins with its size, not counting itself, and the number of the request.
const (
	answerSize = 4
	answerHead = 8
)

// readAnswer decodes an answer, or returns nil if it does not fit such a request.
func readAnswer(request pendingRequest, answer []byte) kmsg.Response {
	resp := request.key.Response()
	if resp == nil {
		return nil
	}
	resp.SetVersion(request.version)
	body := answer[min(answerHead, len(answer)):]
	if resp.IsFlexible() {
		body = body[min(1, len(body)):]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil
	}
	return resp
}

// encode is the inverse of readAnswer.
func encode(resp kmsg.Response, number uint32) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, answerSize, 128), number)
	if resp.IsFlexible() {
		b = append(b, 0)
	}
	b = resp.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-answerSize))
	return b
}

// amend corrects an answer after a failed write. kfake says "unknown" for a batch that it could not write, and reports
// no error for topics that it could not. An error ends the connection, so that its client asks again.
func (b *Broker) amend(request pendingRequest, answer []byte) ([]byte, error) {
	short, topics, failed := b.storage.troubles()
	switch {
	case failed != nil:
		return nil, failed
	case topics != nil && request.key == kmsg.CreateTopics:
		return b.takeBack(request, answer, topics), nil
	case topics != nil && changesTopics(request.key):
		return nil, b.storage.fail(topics)
	case topics != nil:
		return nil, topics
	case short == nil || request.key != kmsg.Produce:
		return answer, nil
	}
	resp, ok := readAnswer(request, answer).(*kmsg.ProduceResponse)
	if !ok {
		return answer, nil
	}
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			if part := &resp.Topics[t].Partitions[p]; part.ErrorCode == kerr.UnknownServerError.Code {
				part.ErrorCode, part.ErrorMessage = kerr.KafkaStorageError.Code, onDisk(short)
			}
		}
	}
	return encode(resp, request.number), nil
}

func onDisk(err error) *string {
	text := fmt.Sprintf("the embedded broker cannot write its log: %v: make room", err)
	return &text
}

func changesTopics(key kmsg.Key) bool {
	return slices.Contains([]kmsg.Key{kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs, kmsg.CreatePartitions, kmsg.DeleteTopics}, key)
}

// takeBack removes topics that kfake has created but that are not on the disk.
func (b *Broker) takeBack(request pendingRequest, answer []byte, cause error) []byte {
	resp, ok := readAnswer(request, answer).(*kmsg.CreateTopicsResponse)
	if !ok {
		return answer
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.ErrorCode == 0 {
			_ = b.cluster.DeleteTopic(t.Topic) // a topic that was only validated does not exist
			t.ErrorCode, t.ErrorMessage = kerr.KafkaStorageError.Code, onDisk(cause)
		}
	}
	b.storage.sameTopics()
	return encode(resp, request.number)
}

// troubles returns three errors: why batches cannot be written, why topics.json differs from kfake's topics, and why
// the broker has stopped.
func (s *storage) troubles() (short, topics, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.short, s.topics, s.failed
}

// sameTopics records that kfake has the topics of the disk again.
func (s *storage) sameTopics() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics = nil
}
