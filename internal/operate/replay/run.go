package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Runner runs all stages in the replay's namespace until training has reached the end of every lane, or ctx ends.
type Runner func(ctx context.Context) error

// Options say what to replay, where and how.
type Options struct {
	Manifest *Manifest
	Original *stream.Log // in the manifest's namespace
	Replayed *stream.Log // in another one, whose topics exist
	Stages   Runner
	// Trains means that Stages trains, and returns when every lane has ended. The last step may follow the last record.
	Trains bool
	// Patience is the longest time without a record. After it the replay counts as stalled.
	Patience time.Duration

	// Progress is called every few seconds, and Differs as soon as a lane differs. There is one call at a time. Both may be
	// nil.
	Progress func([]Progress)
	Differs  func(Result)
}

// Progress counts the records of a topic that have been compared.
type Progress struct {
	Topic        schemas.Topic
	Done, Wanted int64
}

// Report is the result of a replay.
type Report struct {
	Copied int64 `json:"copied"` // pairs
	// Tombstones is the number of tombstones in the original. They apply to the replay from its start.
	Tombstones int      `json:"tombstones,omitempty"`
	Results    []Result `json:"results"`
	Stalled    bool     `json:"stalled,omitempty"` // patience ran out
	Changed    []string `json:"changed,omitempty"` // differences between two starts of the run
	// Unfinished means that no record was missing, and patience ran out before training ended by itself.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Equal reports whether every lane is equal.
func (r *Report) Equal() bool { return r.differing() == 0 }

func (r *Report) differing() int {
	n := 0
	for _, x := range r.Results {
		if !x.Equal {
			n++
		}
	}
	return n
}

func (o *Options) check() error {
	from, to := o.Original.Config(), o.Replayed.Config()
	switch {
	case from.Namespace != o.Manifest.Namespace:
		return fmt.Errorf("the manifest is of namespace %q, the original's is %q", o.Manifest.Namespace, from.Namespace)
	case to.Namespace == from.Namespace:
		return fmt.Errorf("%w than %q: it is the original's", ErrNamespace, to.Namespace)
	case from.Lanes != o.Manifest.Lanes || to.Lanes != o.Manifest.Lanes:
		return fmt.Errorf("LANES=%d and %d: the manifest has %d lanes", from.Lanes, to.Lanes, o.Manifest.Lanes)
	}
	return nil
}

// Run copies the tombstones, the pairs and the skips, runs the stages and compares what they write.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// Tombstones come before any pair, so that the replay never uses a pair that was forgotten. It differs where the
	// original has.
	tombstones, err := o.Original.Tombstones(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the forgotten pairs: %w", err)
	}
	if _, err := o.Replayed.AddTombstones(ctx, tombstones); err != nil {
		return nil, err
	}
	moved, err := copyPairs(ctx, o.Manifest, o.Original, o.Replayed)
	if err != nil {
		return nil, err
	}
	if err := copySkips(ctx, o.Original, o.Replayed); err != nil {
		return nil, fmt.Errorf("copying the skips of operators: %w", err)
	}
	r := newRunning(o, moved)
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	report := &Report{Results: r.results, Changed: r.o.Manifest.Changed, Stalled: r.stalled, Unfinished: r.unfinished, Tombstones: len(tombstones)}
	for _, p := range o.Manifest.Pairs {
		report.Copied += p.Records
	}
	return report, nil
}

// running is a replay whose pairs are copied.
type running struct {
	o          Options
	followers  []*follower
	results    []Result
	done       []atomic.Int64 // records compared, by topic
	last       atomic.Int64   // Unix nanoseconds of the last comparison
	stalled    bool           // patience ran out for a record
	unfinished bool           // patience ran out for the end of training
	stopped    chan struct{}  // closed when the stages have ended
	waiting    sync.WaitGroup
	telling    sync.Mutex // guards the fields below, and calls of Progress and Differs
	differs    bool       // a lane differs
	settling   bool       // no record is missing, and the stages are about to end by themselves
}

func newRunning(o Options, moved []shifts) *running {
	r := &running{o: o, stopped: make(chan struct{}), done: make([]atomic.Int64, len(o.Manifest.Topics))}
	for i, t := range o.Manifest.Topics {
		for _, lane := range t.Lanes {
			r.waiting.Add(1)
			r.followers = append(r.followers, &follower{
				topic: t.Topic, want: lane, ended: o.Manifest.Pairs[lane.Lane].Ended, original: o.Original, replayed: o.Replayed,
				places:  &places{namespace: o.Replayed.Config().Namespace, lane: lane.Lane, shifts: moved[lane.Lane]},
				stopped: r.stopped, enough: sync.OnceFunc(r.waiting.Done),
				compared: func() {
					r.done[i].Add(1)
					r.last.Store(time.Now().UnixNano())
				},
			})
		}
	}
	r.results = make([]Result, len(r.followers))
	return r
}

// settle reports whether to let the stages end by themselves now that no record is missing. It does if they train and
// every lane has ended, so that the last checkpoint is written. A replay that differs is stopped instead.
func (r *running) settle() bool {
	r.telling.Lock()
	defer r.telling.Unlock()
	ended := !slices.ContainsFunc(r.o.Manifest.Pairs, func(p Range) bool { return !p.Ended })
	r.settling = r.o.Trains && ended && !r.differs
	r.last.Store(time.Now().UnixNano())
	return r.settling
}

// differ records that a lane differs, and reports whether to stop the stages.
func (r *running) differ(result Result) bool {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.differs = true
	if r.o.Differs != nil {
		r.o.Differs(result)
	}
	return r.settling
}

// run runs the stages and the followers until the followers need no more, the stages end, or patience runs out.
func (r *running) run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	live, end := context.WithCancel(ctx)
	defer end()
	all.Go(func() error {
		defer close(r.stopped)
		defer end()
		// A stage that was stopped may return an error that says so.
		if err := r.o.Stages(live); err != nil && live.Err() == nil {
			return fmt.Errorf("running the stages: %w", err)
		}
		return nil
	})
	for i, f := range r.followers {
		all.Go(func() error {
			result, err := f.follow(ctx, live)
			r.results[i] = result
			if err == nil && !result.Equal && r.differ(result) {
				end()
			}
			return err
		})
	}
	go func() { // returns when the followers do
		if r.waiting.Wait(); !r.settle() {
			end()
		}
	}()
	all.Go(func() error {
		r.watch(live, end)
		return nil
	})
	return all.Wait()
}

// watchEvery is the time between two reports of progress.
const watchEvery = 5 * time.Second

// watch reports progress, and ends a replay that stalls.
func (r *running) watch(live context.Context, end func()) {
	r.last.Store(time.Now().UnixNano())
	tick := time.NewTicker(min(watchEvery, max(r.o.Patience/4, time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-live.Done():
			return
		case <-tick.C:
		}
		r.telling.Lock()
		if r.o.Progress != nil {
			r.o.Progress(r.progress())
		}
		settling := r.settling
		r.telling.Unlock()
		if time.Since(time.Unix(0, r.last.Load())) > r.o.Patience {
			r.stalled, r.unfinished = !settling, settling
			end()
			return
		}
	}
}

func (r *running) progress() []Progress {
	var p []Progress
	for i, t := range r.o.Manifest.Topics {
		wanted := int64(0)
		for _, l := range t.Lanes {
			wanted += l.Records
		}
		p = append(p, Progress{Topic: t.Topic, Done: r.done[i].Load(), Wanted: wanted})
	}
	return p
}

// errDiffers marks the error of a replay that differs.
var errDiffers = errors.New("the replay differs")

// Err returns nil if every lane is equal.
func (r *Report) Err() error {
	if n := r.differing(); n > 0 {
		err := fmt.Errorf("%w in %d of %d lanes", errDiffers, n, len(r.Results))
		if len(r.Changed) > 0 {
			err = fmt.Errorf("%w; the run itself changed between two starts, and a replay repeats the last start only: %s", err, display.Printable(strings.Join(r.Changed, "; ")))
		}
		return err
	}
	return nil
}

// Between compares the records of two finished runs, lane by lane, and calls each with every result. m describes the
// original. Folders of spooled images differ between the runs, unless both read from a bucket.
func Between(ctx context.Context, m *Manifest, original, replayed *stream.Log, each func(Result)) error {
	o := Options{Manifest: m, Original: original, Replayed: replayed}
	if err := o.check(); err != nil {
		return err
	}
	over, end := context.WithCancel(ctx)
	end() // both runs have ended
	r := newRunning(o, make([]shifts, m.Lanes))
	close(r.stopped)
	for _, f := range r.followers {
		result, err := f.follow(ctx, over)
		if err != nil {
			return err
		}
		each(result)
	}
	return nil
}
