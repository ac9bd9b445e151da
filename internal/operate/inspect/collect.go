package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Collector reads the state of a run, once or repeatedly. It reads every dead letter only once. One goroutine may use
// it.
type Collector struct {
	log       *stream.Log
	groupSize int
	dead      deadCounter
}

// NewCollector returns a collector for a run with the setting GROUP_SIZE=groupSize.
func NewCollector(log *stream.Log, groupSize int) *Collector {
	return &Collector{log: log, groupSize: groupSize, dead: newDeadCounter()}
}

// questions is the number of lanes that are read at the same time.
const questions = 8

// Collect returns the state, which it dates now.
func (c *Collector) Collect(ctx context.Context, now time.Time) (*Status, error) {
	lanes := make([]snapshot, c.log.Config().Lanes)
	for i := range lanes {
		lanes[i] = snapshot{topics: make(map[schemas.Topic]laneTopic), committed: make(map[string]int64)}
	}
	// Committed offsets are read first: a lag may be slightly too large, but must not hide records.
	if err := c.readCommits(ctx, lanes); err != nil {
		return nil, err
	}
	if err := c.readLanes(ctx, lanes); err != nil {
		return nil, err
	}
	if err := c.dead.read(ctx, c.log); err != nil {
		return nil, err
	}
	s := c.summarize(lanes, now)
	for lane, l := range lanes {
		a, err := l.account()
		if err != nil {
			return nil, fmt.Errorf("adding up lane %d: %w", lane, err)
		}
		s.Account.add(a)
	}
	var err error
	s.Training, err = c.training(ctx)
	return s, err
}

func (c *Collector) readCommits(ctx context.Context, lanes []snapshot) error {
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	for _, stage := range stageTopics {
		all.Go(func() error {
			lags, err := c.log.Lag(ctx, stage.name, stage.reads)
			if err != nil {
				return fmt.Errorf("reading the committed offsets of the %s: %w", stage.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range lags {
				lanes[l.Lane].committed[stage.name] = l.Committed
				if l.State != "" {
					lanes[l.Lane].says = append(lanes[l.Lane].says, LaneState{stage.name, l.Lane, l.State})
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func (c *Collector) readLanes(ctx context.Context, lanes []snapshot) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(questions)
	for lane := range lanes {
		all.Go(func() error { return c.readLane(ctx, lane, &lanes[lane]) })
	}
	return all.Wait()
}

func (c *Collector) readLane(ctx context.Context, lane int, s *snapshot) error {
	for _, info := range schemas.Catalogue() {
		if !info.Lane {
			continue
		}
		var t laneTopic
		var err error
		if t.last, t.found, err = c.log.LastRecord(ctx, info.Topic, lane); err != nil {
			return err
		}
		if t.bounds, err = c.log.Bounds(ctx, info.Topic, lane); err != nil {
			return err
		}
		s.topics[info.Topic] = t
	}
	return c.readGroups(ctx, lane, s)
}

// readGroups reads the end of the last closed group, the number of the group after the last chunk, and whether the guard
// of connections has switched them off.
func (c *Collector) readGroups(ctx context.Context, lane int, s *snapshot) error {
	manifest, err := lastMade[*schemas.Group](ctx, c, schemas.Groups, lane, s)
	if err != nil {
		return err
	}
	if manifest != nil {
		s.closed = manifest.EndSeq
	}
	scored, err := lastMade[*schemas.ScoredBatch](ctx, c, schemas.Scored, lane, s)
	if err != nil {
		return err
	}
	if s.check = s.topics[schemas.Scored].guard(); s.check == nil && scored != nil {
		s.check = scored.Check // for a mark that cannot be read
	}
	chunk, err := lastMade[*schemas.NeighborChunk](ctx, c, schemas.Neighbors, lane, s)
	if chunk != nil {
		s.number = chunk.Group.Seq + 1
	}
	return err
}

// guard returns the check of the guard of connections from the discriminator's mark, which every record has. The state
// of a mark is JSON with the key check (discriminator/service).
func (t laneTopic) guard() *schemas.Check {
	if !t.found {
		return nil
	}
	mark, err := stream.MarkOf(t.last)
	if err != nil {
		return nil
	}
	var state struct {
		Check *schemas.Check `json:"check"`
	}
	if json.Unmarshal(mark.State, &state) != nil { // there is no guard, or a newer discriminator
		return nil
	}
	return state.Check
}

// lastMade returns the last record of a kind that a stage wrote, or nil if there is none or it cannot be read. A record of
// a newer version parks its lane, and must not hide the others.
func lastMade[R schemas.Record](ctx context.Context, c *Collector, topic schemas.Topic, lane int, s *snapshot) (made R, err error) {
	if !s.topics[topic].found {
		return made, nil
	}
	last, found, err := c.log.LastWhere(ctx, topic, lane, func(r *stream.Record) bool {
		schema, _ := r.Header(schemas.HeaderSchema)
		_, ours := r.Header(schemas.HeaderSource)
		return ours && string(schema) == made.Schema()
	})
	if err != nil || !found {
		return made, err
	}
	if r, err := schemas.Unmarshal(made.Schema(), last.Value); err == nil {
		made, _ = r.(R)
	}
	return made, nil
}

func (c *Collector) summarize(lanes []snapshot, now time.Time) *Status {
	s := &Status{Namespace: c.log.Config().Namespace, Time: now, DeadLetters: c.dead.counts()}
	for lane, l := range lanes {
		slices.SortFunc(l.says, func(a, b LaneState) int { return cmp.Compare(a.Stage, b.Stage) })
		out := Lane{Lane: lane, Pairs: l.topics[schemas.Pairs].pairs(), Lag: make(map[string]int64), Group: l.openGroup(c.groupSize), State: StateOpen, Says: l.says, Connections: connections(l.check)}
		if l.check != nil && !l.check.Open && l.check.Off() {
			out.ConnectionsOff = l.check.String()
		}
		behind := int64(0)
		for _, stage := range stageTopics {
			lag := l.lag(stage.name, stage.reads, stage.writes)
			out.Lag[stage.name] = lag
			behind += lag
		}
		switch {
		case l.topics[schemas.Scored].sealed() && behind == 0:
			out.State, out.Group.Pairs = StateDone, 0 // refusals may follow the last group
		case l.topics[schemas.Pairs].sealed():
			out.State = StateEnded
		}
		s.Lanes = append(s.Lanes, out)
		s.Waiting.Scoring += out.Lag["discriminator"]
		s.Waiting.Training += out.Lag[trainer]
	}
	for _, stage := range stageTopics {
		out := Stage{Name: stage.name, Reads: stage.reads, WorstLane: -1}
		worst := int64(0)
		for _, l := range s.Lanes {
			lag := l.Lag[stage.name]
			out.Lag += lag
			if lag > worst {
				worst, out.WorstLane = lag, l.Lane
			}
		}
		for _, t := range stage.writes {
			out.LastProgress = latest(out.LastProgress, lastOf(lanes, t))
		}
		s.Stages = append(s.Stages, out)
	}
	s.Topics = topicsOf(lanes)
	return s
}

func topicsOf(lanes []snapshot) []Topic {
	var topics []Topic
	for _, info := range schemas.Catalogue() {
		if !info.Lane {
			continue
		}
		out := Topic{Topic: info.Topic, Last: lastOf(lanes, info.Topic)}
		for _, l := range lanes {
			t := l.topics[info.Topic]
			out.Records += t.records()
			if stream.Sequenced(info.Topic) { // seqs and offsets include records that retention has removed
				out.Repeated += t.bounds.End - t.records()
			}
		}
		topics = append(topics, out)
	}
	return topics
}

// lastOf returns the time of the latest record of a topic.
func lastOf(lanes []snapshot, topic schemas.Topic) *time.Time {
	var last *time.Time
	for _, l := range lanes {
		if t := l.topics[topic]; t.found {
			last = latest(last, &t.last.Time)
		}
	}
	return last
}

func latest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

// training reads the last report of the trainer.
func (c *Collector) training(ctx context.Context) (*Training, error) {
	rec, found, err := c.log.LastRecord(ctx, schemas.ProgressLog, 0)
	if err != nil || !found {
		return nil, err
	}
	p, ok := stream.As[*schemas.Progress](rec)
	if !ok { // any program may write there, and nothing depends on it
		return nil, nil //nolint:nilnil // a report that cannot be read is no report
	}
	return &Training{Kind: p.Kind, Step: p.Step, Values: p.Values, Checkpoint: p.Checkpoint, Time: rec.Time}, nil
}

// deadCounter counts dead letters by stage and reason, each record once.
type deadCounter struct {
	next int64 // number of the next letter to read
	seen map[deadRecord]bool
	by   map[DeadCount]int64 // with a Count of 0
}

// deadRecord names the record that was set aside.
type deadRecord struct {
	topic  schemas.Topic
	lane   int
	offset int64
}

func newDeadCounter() deadCounter {
	return deadCounter{seen: make(map[deadRecord]bool), by: make(map[DeadCount]int64)}
}

func (d *deadCounter) read(ctx context.Context, log *stream.Log) error {
	for letter, err := range log.DeadLettersFrom(ctx, d.next) {
		if err != nil {
			return fmt.Errorf("counting dead letters: %w", err)
		}
		d.next = letter.Number + 1
		key := deadRecord{letter.Topic, letter.Lane, letter.Offset}
		if !d.seen[key] {
			d.seen[key] = true
			d.by[DeadCount{Stage: letter.Stage, Reason: letter.Class()}]++
		}
	}
	return nil
}

// counts lists the counts, the most frequent first.
func (d *deadCounter) counts() []DeadCount {
	counts := []DeadCount{}
	for key, n := range d.by {
		key.Count = n
		counts = append(counts, key)
	}
	slices.SortFunc(counts, func(a, b DeadCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	return counts
}
