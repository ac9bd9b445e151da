//go:build cgo

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/schemas"
)

var laneTopics = []schemas.Topic{
	schemas.Pairs, schemas.Embeddings, schemas.Neighbors, schemas.Groups, schemas.Batches, schemas.Scored, schemas.Features,
}

func (w *world) brokers() []string { return strings.Split(w.env["KAFKA_BROKERS"], ",") }

// writers are the stages that write a topic.
var writers = map[schemas.Topic]string{
	schemas.Embeddings: "encoder", schemas.Neighbors: "indexer", schemas.Groups: "indexer", schemas.Batches: "grouper",
	schemas.Scored: "discriminator", schemas.Features: "trainer",
}

// inline publishes a pair that brings its image along.
func (w *world) inline(a action) {
	log := w.connect(w.here)
	defer log.Close()
	p := log.NewPublisher(stream.PublisherOptions{})
	encoded := []byte(picture(w.t, byte(100+a.A)))
	pair := &schemas.Pair{ImageID: schemas.NewImageID(encoded), Inline: encoded, Caption: fmt.Sprintf("inline dog %d", a.B)}
	pair.ID = schemas.NewPairID(pair.ImageID, pair.Caption)
	w.check(p.Publish(w.t.Context(), schemas.Pairs, pair.ImageID.Lane(worldLanes), pair))
	w.check(p.Close(w.t.Context()))
}

// retention deletes the first records of a lane, or all, whether they were read or not. It leaves the stages the time
// to note where they are, which is a minute otherwise. Programs of the release before take that minute: they are
// upgraded first.
func (w *world) retention(a action) {
	w.upgrade(stageNames...)
	time.Sleep(3 * patience)
	w.read(w.here)
	at := laneOf{laneTopics[a.A%len(laneTopics)], a.B % worldLanes}
	end := w.here.next[at]
	if a.B%3 > 0 {
		end /= 2
	}
	if end == 0 {
		return
	}
	w.here.cut[at] = max(w.here.cut[at], end)
	w.check(kafka.DeleteRecords(w.t.Context(), w.brokers(), at.topic.Name(w.here.name), at.lane, end))
}

// strange writes a record at the end of a lane that a stage writes, as a newer version of it would, or as a program
// that does not count.
func (w *world) strange(a action) {
	at := laneOf{laneTopics[1+a.A%(len(laneTopics)-1)], a.B % worldLanes}
	running := len(w.members[writers[at.topic]]) > 0
	w.stop(writers[at.topic], false)
	defer func() {
		if running {
			w.start(writers[at.topic])
		}
	}()
	log := w.connect(w.here)
	defer log.Close()
	last, found, err := log.LastRecord(w.t.Context(), at.topic, at.lane)
	w.check(err)
	if !found {
		return
	}
	src, _ := last.Header(schemas.HeaderSource)
	schema, seq := strings.TrimSuffix(last.Schema, "/1")+"/2", last.Seq+1
	if a.Kind == "foreign record" {
		schema, seq = last.Schema, last.Seq+7
	}
	m := kafkatest.Message{Topic: at.topic.Name(w.here.name), Partition: at.lane, Value: last.Value, Headers: []kafkatest.MessageHeader{
		{Key: schemas.HeaderSchema, Value: []byte(schema)}, {Key: schemas.HeaderSeq, Value: fmt.Append(nil, seq)},
	}}
	if a.Kind == "newer record" {
		m.Headers = append(m.Headers, kafkatest.MessageHeader{Key: schemas.HeaderSource, Value: src})
	}
	w.check(kafkatest.WriteMessage(w.t.Context(), w.brokers(), m))
}

// makeAnew deletes a topic and creates it again, with the stages running or without.
func (w *world) makeAnew(topic schemas.Topic, running bool) {
	w.doom("topic " + string(topic) + " was recreated")
	if !running {
		w.stopAll()
	}
	w.read(w.here)
	w.check(kafkatest.DeleteTopic(w.t.Context(), w.brokers(), topic.Name(w.here.name)))
	for lane := range worldLanes {
		at := laneOf{topic, lane}
		w.here.old[at] = append(w.here.old[at], w.here.raw[at]...)
		delete(w.here.raw, at)
		delete(w.here.next, at)
	}
	var err error
	for range 100 { // a cluster takes a moment to forget
		if _, err = w.command("topics", "create"); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.check(err)
	if !running {
		w.startAll()
	}
}

// morePartitions adds a partition. Whoever runs says so; whoever starts refuses to.
func (w *world) morePartitions(topic schemas.Topic) {
	w.doom("topic " + string(topic) + " has more partitions")
	w.check(kafkatest.GrowTopic(w.t.Context(), w.brokers(), topic.Name(w.here.name), worldLanes+1))
	w.refused("indexer", fmt.Sprintf("has %d partitions: LANES=%d", worldLanes+1, worldLanes))
	w.newNamespace(false)
}

// doom says that a namespace need not balance its books any more, as long as somebody says why.
func (w *world) doom(why string) {
	if w.here.doomed == "" {
		w.here.doomed = why
	}
}

// look asks what there is to see. It must always be seen.
func (w *world) look() {
	for _, args := range [][]string{{"lanes", "list"}, {"dead-letters", "list"}, {"status"}} {
		out, err := w.command(args...)
		for tries := 0; err != nil && strings.Contains(err.Error(), "does not exist") && tries < 50; tries++ {
			time.Sleep(100 * time.Millisecond) // a cluster takes a moment to know its new topics
			out, err = w.command(args...)
		}
		if err != nil {
			w.fatalf("pairstream %v: %v\n%s", args, err, out)
		}
	}
}
