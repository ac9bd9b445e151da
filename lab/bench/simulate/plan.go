package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/capacity"
	"github.com/pairstream/pairstream/schemas"
)

// Foreseen has what was predicted of a run beside what was measured.
type Foreseen struct {
	Lanes     int     `json:"lanes"`
	Pairs     int     `json:"pairs"`
	Dim       int     `json:"dim"`
	Epochs    int     `json:"epochs"`
	What      string  `json:"what"`
	Predicted float64 `json:"predicted"`
	Measured  float64 `json:"measured"`
}

// planned are the runs that are predicted: a fleet of some lanes, whose trainer sleeps.
var planned = []struct{ lanes, pairs, dim, epochs int }{{1, 1440, 128, 4}, {2, 1920, 64, 3}, {4, 2880, 192, 3}}

// The trainer's rate, in pairs a second for all lanes.
const plannedRate = 1200

// foresee runs the real log and groupers at three sizes, and compares them with what the plan says. Bytes are those of
// package capacity. Processor time is linear in pairs, epochs and the width of vectors: two runs of a lane give the
// factors. A whole epoch waits for the trainer at most, as batches of the next one need its features.
func foresee(ctx context.Context, s sizes) (any, error) {
	narrow, err := played(ctx, 1, 2880, 64, 3)
	if err != nil {
		return nil, err
	}
	wide, err := played(ctx, 1, 2880, 256, 3)
	if err != nil {
		return nil, err
	}
	perValue := (wide.cpu - narrow.cpu) / (256 - 64)
	perPair := narrow.cpu - 64*perValue
	s.say("plan: a pair takes %.1f µs of a processor in an epoch, and %.3f µs for each value of a vector", 1e6*perPair, 1e6*perValue)
	var out []Foreseen
	for _, p := range planned {
		got, err := played(ctx, p.lanes, p.pairs, p.dim, p.epochs)
		if err != nil {
			return nil, fmt.Errorf("%d lanes of %d pairs: %w", p.lanes, p.pairs, err)
		}
		seen, dim := float64(p.lanes*p.pairs*p.epochs), float64(p.dim)
		add := func(what string, predicted, measured float64) {
			out = append(out, Foreseen{p.lanes, p.pairs, p.dim, p.epochs, what, predicted, measured})
			s.say("plan: %d lanes of %d pairs, d = %d: %s: %.4g predicted, %.4g measured, %+.1f %%", p.lanes, p.pairs, p.dim, what, predicted, measured, 100*(predicted/measured-1))
		}
		once := capacity.Bytes(schemas.Embeddings, dim)
		add("storage, MB", float64(p.lanes*p.pairs)*(once+float64(p.epochs)*capacity.EveryEpoch(dim))/1e6, got.bytes/1e6)
		add("processor time, s", seen*(perPair+dim*perValue), seen*got.cpu)
		add("lag, batches", float64(p.lanes*p.pairs)/plannedBatch, got.lag)
		add("throughput of a core, pairs/s", 1/(perPair+dim*perValue), 1/got.cpu)
	}
	return out, nil
}

const plannedBatch = 96

// course is what a run gave.
type course struct {
	cpu   float64 // processor seconds of a pair in an epoch
	bytes float64 // of all topics of the run
	lag   float64 // most batches that waited for the trainer
}

// played plays a fleet.
func played(ctx context.Context, lanes, pairs, dim, epochs int) (course, error) {
	f := fleet{
		Crawl: crawl{Lanes: lanes, Pairs: pairs, Dim: dim, Positives: true}, Epochs: epochs, Batch: plannedBatch, Space: 480, Queue: 480,
		Epoch: time.Duration(lanes*pairs) * time.Second / plannedRate,
	}
	log, err := f.begin(ctx)
	if err != nil {
		return course{}, err
	}
	defer log.end()
	t, out := f.newTrainer(log.Log), course{}
	trained := 0
	t.took = func(*schemas.Batch) {
		trained++
		if ends, err := log.Ends(ctx, schemas.Batches); err == nil {
			written := 0
			for _, end := range ends {
				written += int(end)
			}
			out.lag = max(out.lag, float64(written-trained))
		}
	}
	used := machine.ProcessorTime()
	err = f.run(ctx, log.Log, t, f.grouping(log.Log))
	if err != nil {
		return course{}, err
	}
	out.cpu = (machine.ProcessorTime() - used).Seconds() / float64(lanes*pairs*epochs)
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Batches, schemas.Scored, schemas.Features} {
		for lane := range lanes {
			n, err := topicBytes(ctx, log.Log, topic, lane)
			if err != nil {
				return course{}, err
			}
			out.bytes += n
		}
	}
	return out, nil
}

// Bytes is what a topic holds of a pair: value, headers and key, without what the brokers add.
type Bytes struct {
	Topic     string  `json:"topic"`
	Without   float64 `json:"without"`   // positives
	Positives float64 `json:"positives"` // every sample has one
	Epoch     bool    `json:"epoch"`     // in every epoch again
}

// bytesPerPair counts the bytes of the records of a lane: a group of 2,000 pairs with vectors of 256 values,
// mini-batches of 96, two candidates, captions of 62 bytes and addresses of 39.
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

// logBytes plays a fleet of one lane, and returns the bytes of a pair in every topic, and in every epoch where it comes
// again.
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
		sum += float64(len(rec.Value) + len(rec.Key))
		for _, name := range []string{schemas.HeaderSchema, schemas.HeaderSeq, schemas.HeaderSource} {
			if value, ok := rec.Header(name); ok {
				sum += float64(len(name) + len(value))
			}
		}
	}
	return sum, nil
}
