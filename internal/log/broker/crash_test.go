package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// asker sends requests one after the other, through memory.
type asker struct {
	conn   net.Conn
	number int32
}

func newAsker(b *Broker) (*asker, error) {
	conn, err := DialInProcess(context.Background(), b.Addr())
	if err == nil && conn == nil {
		err = net.ErrClosed
	}
	return &asker{conn: conn}, err
}

func (a *asker) ask(req kmsg.Request) (kmsg.Response, error) {
	a.number++
	if _, err := a.conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, a.number)); err != nil {
		return nil, err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(a.conn, size); err != nil {
		return nil, err
	}
	answer := slices.Concat(size, make([]byte, binary.BigEndian.Uint32(size)))
	if _, err := io.ReadFull(a.conn, answer[4:]); err != nil {
		return nil, err
	}
	resp := readAnswer(pendingRequest{key: kmsg.Key(req.Key()), version: req.GetVersion()}, answer)
	if resp == nil {
		return nil, fmt.Errorf("no answer to %s: %x", kmsg.NameForKey(req.Key()), answer)
	}
	return resp, nil
}

func (a *asker) create(topic string, configs map[string]string) error {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	for name, value := range configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, &value
		rt.Configs = append(rt.Configs, rc)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.Topics = 1, append(req.Topics, rt)
	resp, err := a.ask(req)
	if err != nil {
		return err
	}
	return coded(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorMessage)
}

func coded(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		err = fmt.Errorf("%w: %s", err, *message)
	}
	return err
}

func (a *asker) delete(topic string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TopicNames = 1, []string{topic}
	resp, err := a.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
}

// produce writes one batch, and returns its offset.
func (a *asker) produce(topic string, batch []byte) (int64, error) {
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.Topics = 8, -1, append(req.Topics, rt)
	resp, err := a.ask(req)
	if err != nil {
		return 0, err
	}
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return p.BaseOffset, coded(p.ErrorCode, p.ErrorMessage)
}

// batchOf makes a batch of records, each with a key where keys has one.
func batchOf(keys []string, values ...string) []byte {
	out := make([]byte, batchHead)
	for i, value := range values {
		r := kmsg.NewRecord()
		r.OffsetDelta, r.Value = int32(i), []byte(value)
		if i < len(keys) {
			r.Key = []byte(keys[i])
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // of a record below 64 bytes
		out = r.AppendTo(out)
	}
	be := binary.BigEndian
	be.PutUint32(out[batchLength:], uint32(len(out)-12))
	out[batchMagic] = 2
	be.PutUint32(out[batchLastDelta:], uint32(len(values)-1))
	for i := 43; i < batchCount; i++ { // no producer
		out[i] = 0xff
	}
	be.PutUint32(out[batchCount:], uint32(len(values)))
	be.PutUint32(out[batchCRC:], crc32.Checksum(out[batchAttributes:], castagnoli))
	return out
}

// bounds returns the offset of a topic's first record, and the one behind its last.
func (a *asker) bounds(topic string) (from, end int64, err error) {
	for _, at := range []struct {
		time int64
		to   *int64
	}{{-2, &from}, {-1, &end}} {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = at.time
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID, req.Topics = 1, -1, append(req.Topics, rt)
		resp, err := a.ask(req)
		if err != nil {
			return 0, 0, err
		}
		p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return 0, 0, err
		}
		*at.to = p.Offset
	}
	return from, end, nil
}

// read returns the records of a topic from its begin to its end.
func (a *asker) read(topic string) (records []kmsg.Record, offsets []int64, err error) {
	from, end, err := a.bounds(topic)
	if err != nil {
		return nil, nil, err
	}
	for from < end {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.FetchOffset, rp.PartitionMaxBytes = from, 1<<20
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.ReplicaID, req.MaxWaitMillis, req.MaxBytes, req.Topics = 4, -1, 10, 1<<20, append(req.Topics, rt)
		resp, err := a.ask(req)
		if err != nil {
			return nil, nil, err
		}
		p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, nil, err
		}
		if len(p.RecordBatches) == 0 {
			return nil, nil, fmt.Errorf("%s has nothing at offset %d, and ends at %d", topic, from, end)
		}
		for rest := head(p.RecordBatches); len(rest) > 0; rest = rest[rest.size():] {
			batch := rest[:rest.size()]
			found, err := recordsOf(batch)
			if err != nil || !batch.intact() {
				return nil, nil, fmt.Errorf("%s, offset %d: %w, intact: %t", topic, batch.base(), err, batch.intact())
			}
			for _, r := range found {
				records, offsets = append(records, r), append(offsets, batch.base()+int64(r.OffsetDelta))
			}
			from = batch.next()
		}
	}
	return records, offsets, nil
}

// empty removes all records of a topic, as retention does.
func (a *asker) empty(topic string) error {
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = -1
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := a.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
}

func (a *asker) commit(group, topic string, offset int64) error {
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.Topics = 2, group, -1, append(req.Topics, rt)
	resp, err := a.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

func (a *asker) committed(group, topic string) (int64, error) {
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.Topics = 1, group, append(req.Topics, rt)
	resp, err := a.ask(req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset, nil
}

// acked is what the broker has acknowledged.
type acked struct {
	lines   map[string][]string       // records of topics that keep all, in their order
	notes   map[string]map[string]int // of compacted topics: the last number of every key
	deleted []string                  // topics
	commits map[string]int64          // of a group, by topic
	ends    map[string]int64          // of topics whose records are removed
}

func (a acked) clone() acked {
	out := acked{make(map[string][]string), make(map[string]map[string]int), slices.Clone(a.deleted), maps.Clone(a.commits), maps.Clone(a.ends)}
	for topic, lines := range a.lines {
		out.lines[topic] = slices.Clone(lines)
	}
	for topic, notes := range a.notes {
		out.notes[topic] = maps.Clone(notes)
	}
	return out
}

// check compares a broker with what was acknowledged before it was started. What was on its way may be there.
func (a acked) check(b *Broker) error {
	c, err := newAsker(b)
	if err != nil {
		return err
	}
	defer func() { _ = c.conn.Close() }()
	for topic, want := range a.lines {
		records, offsets, err := c.read(topic)
		if err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		next := 0
		for i, r := range records { // what was not acknowledged may stand between, and the same again
			if offsets[i] != int64(i) {
				return fmt.Errorf("%s: record %d has offset %d", topic, i, offsets[i])
			}
			if next < len(want) && string(r.Value) == want[next] {
				next++
			}
		}
		if next < len(want) {
			return fmt.Errorf("%s: %q is not among %d records", topic, want[next], len(records))
		}
	}
	for topic, want := range a.notes {
		records, _, err := c.read(topic)
		if err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		got := make(map[string]int)
		for _, r := range records {
			if got[string(r.Key)], err = strconv.Atoi(string(r.Value)); err != nil {
				return err
			}
		}
		for key, number := range want {
			if got[key] < number {
				return fmt.Errorf("%s: the note of %s is %d, want %d", topic, key, got[key], number)
			}
		}
	}
	for _, topic := range a.deleted {
		if _, _, err := c.read(topic); err == nil {
			return fmt.Errorf("%s was deleted, and is there", topic)
		}
	}
	for topic, end := range a.ends {
		if _, got, err := c.bounds(topic); err != nil || got < end {
			return fmt.Errorf("%s goes on at offset %d, want %d: %w", topic, got, end, err)
		}
	}
	for topic, offset := range a.commits {
		if got, err := c.committed("readers", topic); err != nil || got < offset {
			return fmt.Errorf("the group has offset %d of %s, want %d: %w", got, topic, offset, err)
		}
	}
	return nil
}

// story is what a broker goes through in these tests.
type story struct {
	options Options
	broker  *Broker
	client  *asker

	mu    sync.Mutex
	acked acked
}

func (s *story) now() acked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked.clone()
}

func (s *story) note(change func(*acked)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.acked)
}

func (s *story) start() (err error) {
	if s.broker != nil {
		return nil // it was started after a failure
	}
	if s.broker, err = Start(s.options); err == nil {
		s.client, err = newAsker(s.broker)
	}
	return err
}

func (s *story) stop() error {
	if s.broker == nil {
		return nil
	}
	b := s.broker
	s.broker = nil
	_ = s.client.conn.Close()
	return b.Close()
}

func (s *story) create(topic, policy string) error {
	err := s.client.create(topic, map[string]string{"cleanup.policy": policy, "segment.bytes": "400"})
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	s.note(func(a *acked) {
		if policy == "compact" {
			a.notes[topic] = make(map[string]int)
		} else {
			a.lines[topic] = nil
		}
	})
	return nil
}

func (s *story) line(topic string, n int) error {
	lines := []string{fmt.Sprint("line ", n), fmt.Sprint("and more of ", n)}
	if _, err := s.client.produce(topic, batchOf(nil, lines...)); err != nil {
		return err
	}
	s.note(func(a *acked) { a.lines[topic] = append(a.lines[topic], lines...) })
	return nil
}

func (s *story) noteOf(topic, key string, n int) error {
	_, err := s.client.produce(topic, batchOf([]string{key, "other " + key}, strconv.Itoa(n), strconv.Itoa(n)))
	if err == nil {
		s.note(func(a *acked) { a.notes[topic][key], a.notes[topic]["other "+key] = n, n })
	}
	return err
}

// passing writes a batch to a topic whose records are removed.
func (s *story) passing() error {
	base, err := s.client.produce("passing", batchOf(nil, "a", "b", "c"))
	if err == nil {
		s.note(func(a *acked) { a.ends["passing"] = base + 3 })
	}
	return err
}

// tell plays the story without disturbance.
func (s *story) tell() error {
	for i, step := range s.steps() {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// steps returns the story: topics come and go, segments end, groups commit, and the broker is closed and started, which
// compacts.
func (s *story) steps() []func() error {
	s.acked = acked{lines: make(map[string][]string), notes: make(map[string]map[string]int), commits: make(map[string]int64), ends: make(map[string]int64)}
	steps := []func() error{
		s.start,
		func() error { return s.create("pairs", "delete") },
		func() error { return s.create("control", "compact") },
		func() error { return s.create("gone", "delete") },
		func() error { return s.line("gone", 0) },
		func() error {
			err := s.create("passing", "delete")
			s.note(func(a *acked) { delete(a.lines, "passing") })
			return err
		},
		s.passing, s.passing,
		func() error { return s.client.empty("passing") },
	}
	for n := range 6 {
		steps = append(steps,
			func() error { return s.line("pairs", n) },
			func() error { return s.noteOf("control", fmt.Sprint("key ", n%2), n+1) },
			func() error {
				err := s.client.commit("readers", "pairs", int64(n))
				s.note(func(a *acked) {
					if err == nil {
						a.commits["pairs"] = int64(n)
					}
				})
				return err
			})
	}
	return append(steps,
		func() error {
			s.note(func(a *acked) { delete(a.lines, "gone") }) // on its way
			err := s.client.delete("gone")
			if errors.Is(err, kerr.UnknownTopicOrPartition) { // it was deleted at an earlier try
				err = nil
			}
			if err == nil {
				s.note(func(a *acked) { a.deleted = append(a.deleted, "gone") })
			}
			return err
		},
		s.stop, s.start, s.passing,
		func() error { return s.client.empty("passing") },
		func() error { return s.line("pairs", 100) },
		func() error { return s.noteOf("control", "key 0", 100) },
		func() error { return s.noteOf("control", "key 1", 101) },
		s.stop, s.start, s.stop,
	)
}

// TestKilledAtEveryCall kills the broker, and cuts its power, before every call that changes a file, and in the middle
// of every write. After each, the broker starts and has all that it has acknowledged.
func TestKilledAtEveryCall(t *testing.T) {
	clones := t.TempDir()
	dir := filepath.Join(t.TempDir(), "broker")
	disk := &testDisk{tracks: true}
	s := &story{options: Options{DataDir: dir, disk: disk, compactMin: 1}}
	type moment struct {
		name, dir string
		acked     acked
	}
	var moments []moment
	calls := make(map[string]int)
	disk.before = func(op, path string) error {
		calls[op]++
		now := s.now()
		keep := func(how string, write func(to string) error) {
			m := moment{fmt.Sprintf("%s before call %d, %s %s", how, len(moments), op, path), filepath.Join(clones, strconv.Itoa(len(moments))), now}
			moments = append(moments, m)
			must.Check(t, write(m.dir))
		}
		if _, err := os.Stat(dir); err != nil {
			return nil
		}
		keep("killed", func(to string) error { return copyTo(to, dir) })
		keep("cut off", func(to string) error { return disk.lose(dir, to) })
		if op == opWrite {
			keep("killed in the middle", func(to string) error {
				if err := copyTo(to, dir); err != nil {
					return err
				}
				rest := must.Get(filepath.Rel(dir, path))(t)
				f, err := os.OpenFile(filepath.Join(to, rest), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.Write(disk.writing[:len(disk.writing)/2])
				return errors.Join(err, f.Close())
			})
		}
		return nil
	}
	must.Do(t, s.tell())
	for _, op := range []string{opMake, opOpen, opWrite, opSync, opRename, opRemove} {
		if calls[op] == 0 {
			t.Errorf("no call to %s", op)
		}
	}
	t.Logf("%d moments, %v", len(moments), calls)
	var all errgroup.Group
	all.SetLimit(4)
	for _, m := range moments {
		all.Go(func() error {
			if err := survives(m.dir, m.acked); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
			return os.RemoveAll(m.dir)
		})
	}
	must.Do(t, all.Wait())
}

// survives starts a broker on what a crash has left. It looks whether all is there, goes on, and looks again.
func survives(dir string, want acked) error {
	for range 2 {
		b, err := Start(Options{DataDir: dir, disk: &testDisk{}, compactMin: 1})
		if err != nil {
			return err
		}
		err = want.check(b)
		for _, topic := range []string{"pairs", "passing"} {
			if err != nil || want.lines[topic] == nil && want.ends[topic] == 0 {
				continue
			}
			c, cerr := newAsker(b)
			if cerr == nil {
				_, cerr = c.produce(topic, batchOf(nil, "goes on"))
				cerr = errors.Join(cerr, c.conn.Close())
			}
			err = cerr
		}
		if err := errors.Join(err, b.Close()); err != nil {
			return err
		}
	}
	return nil
}

func copyTo(to, dir string) error { return os.CopyFS(to, os.DirFS(dir)) }
