package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Bytes is what a topic holds of a pair: value, headers and key, without what the brokers add.
type Bytes struct {
	Topic     string  `json:"topic"`
	Without   float64 `json:"without"`   // positives
	Positives float64 `json:"positives"` // every sample has one
	Epoch     bool    `json:"epoch"`     // in every epoch again
}

// bytesPerPair counts the bytes of the records of a lane: a group of 2,000 pairs with vectors of 256 values, mini-batches of
// 96, two candidates, captions of 62 bytes and addresses of 39.
func bytesPerPair(ctx context.Context, s sizes) (any, error) {
	var out []Bytes
	for _, positives := range []bool{false, true} {
		const epochs, pairs = 3, 2000
		f := fleet{
			Crawl: crawl{Lanes: 1, Pairs: pairs, Dim: 256, Positives: positives}, Epochs: epochs, Batch: 96, Space: 480, Queue: 960, Epoch: time.Second,
		}
		found, err := f.logBytes(ctx)
		if err != nil {
			return nil, fmt.Errorf("counting the bytes of a pair: %w", err)
		}
		for i, topic := range countedTopics {
			if !positives {
				out = append(out, Bytes{Topic: string(topic), Without: found[topic], Epoch: everyEpoch(topic)})
			} else {
				out[i].Positives = found[topic]
			}
		}
	}
	for _, b := range out {
		s.say("bytes: %s: %.0f bytes a pair, %.0f with positives", b.Topic, b.Without, b.Positives)
	}
	return out, nil
}

// countedTopics are the topics whose bytes are counted.
var countedTopics = []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Batches, schemas.Scored, schemas.Features}

// everyEpoch reports whether a topic has a pair in every epoch again.
func everyEpoch(t schemas.Topic) bool { return t != schemas.Embeddings && t != schemas.Neighbors }

// logBytes plays a fleet of one lane, and returns the bytes of a pair in every topic, and in every epoch where it comes again.
func (f fleet) logBytes(ctx context.Context) (map[schemas.Topic]float64, error) {
	log, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer log.end()
	err = f.run(ctx, log.Log, f.newTrainer(log.Log), f.grouping(log.Log))
	if err != nil {
		return nil, err
	}
	found := make(map[schemas.Topic]float64)
	for _, topic := range countedTopics {
		bytes, err := topicBytes(ctx, log.Log, topic, 0)
		if err != nil {
			return nil, err
		}
		found[topic] = bytes / float64(f.Crawl.Pairs)
		if everyEpoch(topic) {
			found[topic] /= float64(f.Epochs)
		}
	}
	return found, nil
}

// topicBytes sums the records of a lane.
func topicBytes(ctx context.Context, log *stream.Log, topic schemas.Topic, lane int) (sum float64, err error) {
	for rec, err := range log.Records(ctx, topic, lane, stream.Position{}, -1) {
		if err != nil {
			return 0, err
		}
		sum += float64(len(rec.Value) + len(rec.Key()))
		for _, name := range []string{schemas.HeaderSchema, schemas.HeaderSeq, schemas.HeaderSource} {
			if value, ok := rec.Header(name); ok {
				sum += float64(len(name) + len(value))
			}
		}
	}
	return sum, nil
}
