package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

const (
	testLanes   = 3
	testBatches = 4 // of each lane
	allSteps    = testLanes * testBatches
)

var errCrash = errors.New("crash of the test")

// state stands for weights: a hash of every batch that was trained on, in order.
type state struct {
	Weights [32]byte
	Steps   int64
}

// after returns the state after a step on a batch.
func (s state) after(b *schemas.ScoredBatch) state {
	text := fmt.Sprintf("%x lane %d batch %d", s.Weights, b.Group.Lane, b.Sequence)
	return state{sha256.Sum256([]byte(text)), s.Steps + 1}
}

// features returns 16 bits of the weights before the step. The features of a model show all of its weights.
func (s state) features(b *schemas.ScoredBatch) schemas.FeatureBlock {
	oneHot := func(at byte) schemas.Float16s {
		values := make([]float32, 256)
		values[at] = 1
		return schemas.NewFloat16s(values)
	}
	return schemas.FeatureBlock{
		Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Positions: schemas.Int32s{b.Samples[0].Position},
		Dim: 256, V: oneHot(s.Weights[0]), T: oneHot(s.Weights[1]), Step: s.Steps,
	}
}

// disk is what survives a crash besides the order file.
type disk struct {
	state
	positions json.RawMessage
}

// process is a trainer that dies at a point of its work.
type process struct {
	state
	disk *disk

	written sync.WaitGroup // checkpoints under way

	mu    sync.Mutex
	left  int // points to pass
	dead  bool
	last  int   // number of the step in which it dies; 0: none
	lanes []int // of the steps that were made
	decay func(step int64, d trainer.Decay)
}

// pass marks a point at which the process may die. A dead process passes none.
func (p *process) pass() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead = p.dead || p.left == 0; p.dead {
		return errCrash
	}
	p.left--
	return nil
}

func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *process) load(context.Context, *schemas.ScoredBatch, []schemas.Mask) (trainer.Input, error) {
	return trainer.Input{}, p.pass()
}

func (p *process) Step(_ context.Context, b *schemas.ScoredBatch, in trainer.Input) (*trainer.Result, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	if p.decay != nil {
		p.decay(p.state.Steps, in.Decay)
	}
	r := &trainer.Result{Step: p.state.Steps, Updated: true, Features: p.features(b)}
	p.state = p.after(b)
	p.lanes = append(p.lanes, int(b.Group.Lane))
	if len(p.lanes) == p.last {
		p.written.Wait() // so that it is sure which checkpoint it leaves
		p.die()
	}
	return r, p.pass()
}

func (p *process) Encode(context.Context, *schemas.ScoredBatch, trainer.Input) (*schemas.FeatureBlock, error) {
	return nil, errCrash
}

func (p *process) Prepare(context.Context, *schemas.ScoredBatch, trainer.Input) (*schemas.FeatureBlock, error) {
	return nil, errCrash
}

func (p *process) Finish(context.Context) (bool, error) { return false, nil }

func (p *process) Steps() int64 { return p.state.Steps }

func (p *process) Snapshot(context.Context) (snapshot, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	p.written.Add(1)
	return &copied{p, p.state}, nil
}

// copied is the state of a process at a step, which is written while others are made.
type copied struct {
	*process
	state state
}

func (c *copied) Steps() int64 { return c.state.Steps }

func (c *copied) SaveWeights(func(string) string) (string, error) { return "", errCrash }

func (c *copied) Save(_ string, at json.RawMessage, _ int64) (string, error) {
	defer c.written.Done()
	if err := c.pass(); err != nil {
		return "", err
	}
	*c.disk = disk{c.state, slices.Clone(at)}
	return "checkpoint", c.pass()
}

// life describes one life of a trainer.
type life struct {
	order   LaneOrder
	dieAt   int  // the point; negative: none
	dieIn   int  // the step; 0: none
	flushed bool // what was published still reaches the log
	seen    func(steps int)
	decay   func(step int64, d trainer.Decay)
}

// live runs a trainer on a log, starting from the disk, until the lanes have ended or it dies. It returns the lanes
// that it took.
func live(t *testing.T, log *stream.Log, d *disk, dir string, o life) (lanes []int, err error) {
	t.Helper()
	return liveUntil(t.Context(), t, log, d, dir, o)
}

func liveUntil(ctx context.Context, t *testing.T, log *stream.Log, d *disk, dir string, o life) (lanes []int, err error) {
	t.Helper()
	p := &process{state: d.state, disk: d, left: o.dieAt, last: o.dieIn, decay: o.decay}
	at := startOf([]int{0, 1, 2})
	last := make(map[int]int64)
	for _, l := range at.Lanes {
		if last[l.Lane], err = log.LastSeq(t.Context(), schemas.Features, l.Lane); err != nil {
			t.Fatal(err)
		}
	}
	if d.positions != nil {
		if at, err = parsePositions(d.positions, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
	}
	trail, err := openTrail(t.Context(), published{log: log}, Settings{Dir: dir, Order: o.order}, at, d.Steps, last)
	must.Do(t, err)
	logger := slog.New(slog.DiscardHandler)
	metrics := testMetrics(t)
	_, blocks, err := published{log: log}.blocks(t.Context(), at)
	must.Do(t, err)
	publisher := log.NewPublisher(stream.PublisherOptions{})
	f := &feed{load: p.load, order: o.order, trail: trail, at: at.clone(), step: d.Steps, metrics: metrics}
	f.follow(log, publisher, stream.FollowSpec{ParkedPause: 20 * time.Millisecond, SaidAfter: 20 * time.Millisecond})
	if f.ends, err = readEnds(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	steps := 0
	l := &loop{
		core: p, publisher: publisher, logger: logger, published: last, blocks: blocks, inOrder: o.order == Arrival, every: 3, at: at,
		metrics: metrics, follower: f.follower,
		observe: func(Step) {
			steps++
			if o.seen != nil {
				o.seen(steps)
			}
		},
	}
	err = l.leave(ctx, l.run(ctx, f))
	closing, cancel := context.WithCancel(t.Context())
	if err != nil && !o.flushed {
		cancel() // what is not acknowledged is lost, or comes late
	}
	_ = publisher.Close(closing)
	cancel()
	must.Check(t, trail.close())
	return p.lanes, err
}

func testBatch(lane, n int) *schemas.ScoredBatch {
	image := schemas.NewImageID(fmt.Append(nil, "image", lane, n))
	text := fmt.Sprint("caption ", n)
	return &schemas.ScoredBatch{Model: "test", Batch: schemas.Batch{
		Group: schemas.GroupID{Lane: int32(lane)}, Sequence: int32(n), Batches: testBatches, Strategy: schemas.StrategyRandom,
		Samples: []schemas.Sample{{
			ID: schemas.NewPairID(image, text), ImageID: image, Image: schemas.ImageRef{URI: "file:///a.tar", Size: 1}, Text: text, Position: int32(n),
		}},
	}}
}

// putScored writes all batches of lanes, and their ends.
func putScored(t *testing.T, log *stream.Log, lanes ...int) {
	t.Helper()
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, lane := range lanes {
		for n := range testBatches + 1 {
			var rec schemas.Record = &schemas.Seal{Final: true}
			if n < testBatches {
				rec = testBatch(lane, n)
			}
			must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, int64(n), stream.Mark{}, rec))
		}
	}
	must.Do(t, p.Close(t.Context()))
}

// testLogs returns a function that opens logs, each in a namespace of its own.
func testLogs(t *testing.T) func(namespace string) *stream.Log {
	t.Helper()
	broker := logtest.Broker(t)
	return func(namespace string) *stream.Log { return logtest.Open(t, broker, namespace, testLanes) }
}

// featureDigests returns the digests of the lanes of features.
func featureDigests(t *testing.T, log *stream.Log) (sums []string) {
	t.Helper()
	for lane := range testLanes {
		d := must.Get(log.Digest(t.Context(), schemas.Features, lane, stream.Position{}, -1))(t)
		sums = append(sums, fmt.Sprintf("%d records %s", d.Records, d.Sum()))
	}
	return sums
}

// checkOrder checks that the features give the whole order, and that the weights are those of a training in that order.
// It returns the order as lanes.
func checkOrder(t *testing.T, log *stream.Log, d *disk) (lanes []int) {
	t.Helper()
	turns, err := published{log: log}.order(t.Context(), startOf([]int{0, 1, 2}), 0)
	if err != nil || len(turns) != allSteps {
		t.Fatalf("the features tell of %d steps (%v), want %d", len(turns), err, allSteps)
	}
	var want state
	next := make([]int, testLanes)
	var wanted [testLanes][]schemas.FeatureBlock
	for _, p := range turns {
		b := testBatch(p.lane, next[p.lane])
		wanted[p.lane] = append(wanted[p.lane], want.features(b))
		want = want.after(b)
		next[p.lane]++
		lanes = append(lanes, p.lane)
	}
	if d.state != want {
		t.Errorf("the last checkpoint is not that of a training in the order %v", lanes)
	}
	for lane := range testLanes {
		n := 0
		for rec, err := range log.Records(t.Context(), schemas.Features, lane, stream.Position{}, -1) {
			must.Do(t, err)
			raw, err := schemas.Marshal(&wanted[lane][n])
			if err != nil || string(rec.Value) != string(raw) {
				t.Errorf("features %d of lane %d are not those of a training in the order %v (%v)", n, lane, lanes, err)
			}
			n++
		}
	}
	return lanes
}

// trainInArrival lets lane 1 be late and the trainer die at a point. Then every batch is there, and its successor dies
// as well. The third goes on to the end. died is false once there is no such point.
func trainInArrival(t *testing.T, log *stream.Log, d *disk, dir string, dieAt int) (first []int, died bool) {
	t.Helper()
	putScored(t, log, 0, 2)
	feed := sync.OnceFunc(func() { putScored(t, log, 1) })
	first, err := live(t, log, d, dir, life{order: Arrival, dieAt: dieAt, seen: func(steps int) {
		if steps == late {
			feed()
		}
	}})
	feed()
	died = errors.Is(err, errCrash)
	for _, next := range []int{dieAt, -1} {
		if errors.Is(err, errCrash) {
			_, err = live(t, log, d, dir, life{order: Arrival, dieAt: next})
		}
	}
	if err != nil {
		t.Fatalf("point %d: %v", dieAt, err)
	}
	return first, died
}

// late is the number of steps before lane 1 has anything.
const late = 5

// A trainer may die before and after it writes down a lane, makes a step, publishes a block or saves a checkpoint. All
// that come after it follow one order, and so does a replay.
func TestArrivalIsFollowedAfterCrashes(t *testing.T) {
	open := testLogs(t)
	for dieAt, died := 0, true; died; dieAt++ {
		log, dir, d := open(fmt.Sprint("run", dieAt)), t.TempDir(), new(disk)
		var first []int
		first, died = trainInArrival(t, log, d, dir, dieAt)
		lanes := checkOrder(t, log, d)
		if !slices.Equal(lanes[:len(first)], first) || slices.Contains(first[:min(len(first), late)], 1) {
			t.Errorf("point %d: first %v, in the end %v: want lane 1 to come later, and the first steps to stay", dieAt, first, lanes)
		}
		known, err := readOrder(dir, log.Config().Namespace, 0)
		for i, lane := range lanes {
			if known[int64(i)] != lane {
				t.Errorf("point %d: in the file step %d is made on lane %d, in fact on %d (%v)", dieAt, i, known[int64(i)], lane, err)
			}
		}

		again, dir, e := open(fmt.Sprint("again", dieAt)), t.TempDir(), new(disk)
		putScored(t, again, 0, 1, 2)
		if n, err := CopyOrder(t.Context(), log, again, dir); n != allSteps || err != nil {
			t.Fatalf("point %d: copied the order of %d steps (%v)", dieAt, n, err)
		}
		must.Get(live(t, again, e, dir, life{order: Arrival, dieAt: -1}))(t)
		if e.state != d.state || !slices.Equal(featureDigests(t, again), featureDigests(t, log)) {
			t.Errorf("point %d: the replay differs", dieAt)
		}
		if !died && dieAt < 3*allSteps {
			t.Errorf("only %d points to die at, want 3 a step at least", dieAt)
		}
	}
}

// A trainer that has lost the file follows the order of the features.
func TestOrderIsThatOfTheFeaturesWithoutTheFile(t *testing.T) {
	open := testLogs(t)
	log, dir, d := open("run"), t.TempDir(), new(disk)
	putScored(t, log, 0, 2)
	const dieIn = 5 // behind the first checkpoint
	first, err := live(t, log, d, dir, life{order: Arrival, dieAt: -1, dieIn: dieIn, flushed: true})
	if !errors.Is(err, errCrash) || d.Steps == 0 {
		t.Fatalf("in step %d: %v, checkpoint of step %d", dieIn, err, d.Steps)
	}
	putScored(t, log, 1)
	must.Do(t, os.Remove(filepath.Join(dir, orderFileName)))
	must.Get(live(t, log, d, dir, life{order: Arrival, dieAt: -1}))(t)
	lanes := checkOrder(t, log, d)
	if n := len(first) - 1; !slices.Equal(lanes[:n], first[:n]) {
		t.Errorf("first %v, in the end %v", first, lanes)
	}
}

// After a training in strict rotation, another setting continues like the same one, up to what is published. The
// reverse holds as well.
func TestOrderOutlivesTheSetting(t *testing.T) {
	open := testLogs(t)
	for i, c := range []struct{ before, after LaneOrder }{{Rotation, Arrival}, {Arrival, Rotation}} {
		t.Run(string(c.before+" to "+c.after), func(t *testing.T) {
			log, dir, d := open(fmt.Sprint("setting", i)), t.TempDir(), new(disk)
			putScored(t, log, 0, 1, 2)
			first, err := live(t, log, d, dir, life{order: c.before, dieAt: -1, dieIn: 5, flushed: true})
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			rest := must.Get(live(t, log, d, dir, life{order: c.after, dieAt: -1}))(t)
			saved := allSteps - len(rest)
			if saved <= 0 || len(first) <= saved || !slices.Equal(rest[:len(first)-saved-1], first[saved:len(first)-1]) {
				t.Errorf("first %v, then from step %d on %v", first, saved, rest)
			}
		})
	}
}

// A copy that was cut short is completed. A copy whose trainer went on by itself is left alone.
func TestCopyOrderAgain(t *testing.T) {
	open := testLogs(t)
	log, exp := open("one"), open("exp")
	putScored(t, log, 0, 1, 2)
	must.Get(live(t, log, new(disk), t.TempDir(), life{order: Rotation, dieAt: -1}))(t)
	for _, c := range []struct {
		name  string
		there []turn
		want  int // steps in the end
	}{
		{"cut short", []turn{{0, 0}, {1, 1}}, allSteps},
		{"went on", []turn{{0, 0}, {1, 2}}, 2},
	} {
		dir := t.TempDir()
		writeTurns(t, dir, c.there...)
		n, err := CopyOrder(t.Context(), log, exp, dir)
		got, rerr := readOrder(dir, "exp", 0)
		if n != c.want || len(got) != c.want || err != nil || rerr != nil {
			t.Errorf("%s: %d steps (%v), the file has %v (%v), want %d", c.name, n, err, got, rerr, c.want)
		}
	}
}

// An order that cannot belong to this training ends it, and the error says what to do.
func TestOrderOfAnotherRunIsRefused(t *testing.T) {
	log := testLogs(t)("exp")
	putScored(t, log, 0, 1, 2)
	ends := make([]turn, testBatches+1)
	for i := range ends {
		ends[i] = turn{int64(i), 1}
	}
	for _, c := range []struct {
		name  string
		there []turn
		want  string
	}{
		{"a lane of others", []turn{{0, 7}}, "choosing the lane of step 0: it was made on lane 7, which is not among those of this trainer (LANES)"},
		{"more batches than there are", ends, "choosing the lane of step 4: it was made on lane 1: the lane has ended: the order of lanes is that of another run"},
	} {
		dir := t.TempDir()
		writeTurns(t, dir, c.there...)
		if _, err := live(t, log, new(disk), dir, life{order: Arrival, dieAt: -1}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

// A feed that fails behind the opening of the order leaves its file to the next trainer.
func TestOrderIsLeftByAFailedStart(t *testing.T) {
	log, dir := testLogs(t)("leaves"), t.TempDir()
	metrics := testMetrics(t)
	f := &feed{order: Arrival, at: startOf([]int{0, 1, 2}), metrics: metrics}
	f.follow(log, nil, stream.FollowSpec{})
	ctx, cancel := context.WithCancel(t.Context())
	defer func(before func(*os.File) error) { syncFile = before }(syncFile)
	syncFile = func(*os.File) error {
		cancel() // with the file open
		return nil
	}
	if err := f.recall(ctx, Settings{Dir: dir, Order: Arrival}, map[int]int64{0: -1, 1: -1, 2: -1}); !errors.Is(err, context.Canceled) {
		t.Fatalf("recalled with %v", err)
	}
	file, _ := must.Get2(openOrderFile(dir, log.Config().Namespace, 0))(t)
	must.Check(t, file.Close())
}

// testMetrics returns metrics that nobody reads.
func testMetrics(t *testing.T) *metrics {
	t.Helper()
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	m := must.Get(newMetrics(instruments))(t)
	return m
}
