package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Watch configures how a producer continues after the existing tars.
type Watch struct {
	On     bool
	Every  time.Duration // between two listings
	Events string        // where stores announce new objects; empty: listings alone
}

// Validate refuses options that exclude each other.
func (w *Watch) Validate(o dataset.ProduceOptions, dry bool) error {
	switch {
	case !w.On && w.Events != "":
		return errors.New("--events has no effect without --watch")
	case !w.On:
		return nil
	case w.Every <= 0:
		return fmt.Errorf("--interval is %s, want more than 0", w.Every)
	case o.Weights != nil:
		return errors.New("--watch publishes tars as they come: --weights has no effect with it")
	case o.HeldOut > 0 || o.Final || o.Anew || o.Buffer > 0 || dry:
		return errors.New("--watch publishes tars in the order of their arrival: it excludes --holdout, --final, --resume=false, --shuffle and --dry-run")
	}
	return nil
}

// Remember returns a ledger for one leader. It reads the notes of sources once, because only the leader writes them.
func Remember(l onlog.Ledger) dataset.Ledger { return &memory{Ledger: l} }

// memory implements [dataset.Ledger].
type memory struct {
	onlog.Ledger
	notes map[string]dataset.SourceNote
}

// Sources implements [dataset.Ledger].
func (m *memory) Sources(ctx context.Context) (notes map[string]dataset.SourceNote, err error) {
	if m.notes == nil {
		m.notes, err = m.Ledger.Sources(ctx)
	}
	return m.notes, err
}

// Note implements [dataset.Ledger].
func (m *memory) Note(ctx context.Context, notes []dataset.SourceNote) error {
	if err := m.Ledger.Note(ctx, notes); err != nil {
		return err
	}
	for _, n := range notes {
		m.notes[n.URI] = n
	}
	return nil
}

// watcher publishes new tars of some paths while it leads.
type watcher struct {
	Watch
	log    *stream.Log
	paths  []string
	o      dataset.ProduceOptions
	out    io.Writer
	pace   Pace
	ledger dataset.Ledger
	stores cloud.Stores // for reading events; each listing opens them anew
	seen   sightings
}

// retryEvery bounds the time until the next listing after an object could not be published.
const retryEvery = 30 * time.Second

// gathered is the number of simultaneous arrivals that are published together.
const gathered = 64

// drainTime bounds the time to flush when a watcher loses the lead.
const drainTime = 4 * time.Second

// Keep publishes the tars of paths as they come, until ctx ends, which is no error. Of several watchers of a namespace,
// one publishes. It writes a summary of every round to out.
func (w Watch) Keep(ctx context.Context, log *stream.Log, paths []string, o dataset.ProduceOptions, p Pace, out io.Writer) error {
	lead := &watcher{Watch: w, log: log, paths: paths, o: o, out: out, pace: p}
	err := log.Lead(ctx, "producer", schemas.Sources, lead.run)
	if ctx.Err() != nil {
		return interrupt.Failure(err) // a watcher ends by being interrupted
	}
	return err
}

// run publishes until the lead is lost.
func (w *watcher) run(ctx context.Context) (err error) {
	publisher := w.log.NewPublisher(stream.PublisherOptions{Name: "producer"})
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err = errors.Join(err, publisher.Close(last), w.stores.Close())
	}()
	w.ledger = w.pace.over(Remember(onlog.New(w.log, publisher)), w.log, publisher)
	w.seen = sightings{}
	arriving := make(chan arrival, gathered)
	running, ctx := interrupt.WithContext(ctx)
	if w.Events != "" {
		from, err := openEvents(ctx, w.log, w.Events) // before the first listing, so that nothing is missed between them
		if err != nil {
			return err
		}
		running.Go(func() error {
			err := from.Run(ctx, arriving)
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
			defer cancel()
			return errors.Join(err, from.Close(last))
		})
	}
	running.Go(func() error { return w.loop(ctx, arriving) })
	return running.Wait()
}

func (w *watcher) loop(ctx context.Context, arriving <-chan arrival) error {
	listing := time.NewTimer(0)
	defer listing.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-listing.C:
			next := w.Every
			if !w.say(w.list(ctx)) {
				next = min(next, retryEvery)
			}
			listing.Reset(next)
		case a := <-arriving:
			if !w.say(w.take(ctx, gather(a, arriving))) {
				listing.Reset(min(w.Every, retryEvery))
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// gather adds the arrivals that are already waiting.
func gather(first arrival, more <-chan arrival) []arrival {
	all := []arrival{first}
	for len(all) < gathered {
		select {
		case a := <-more:
			all = append(all, a)
		default:
			return all
		}
	}
	return all
}

// take publishes the objects of arrivals, and acknowledges them. It publishes all at once if it can, otherwise one by
// one, so that an unreadable tar does not delay the others.
func (w *watcher) take(ctx context.Context, all []arrival) (faults error) {
	var tars []string
	for _, a := range all {
		tars = append(tars, within(a.uris, w.paths)...)
	}
	together := w.publish(ctx, tars...) == nil
	for _, a := range all {
		var failed error
		for _, tar := range within(a.uris, w.paths) {
			if together {
				break
			}
			if err := w.publish(ctx, tar); err != nil && !gone(err) {
				failed = errors.Join(failed, err)
			}
		}
		if faults = errors.Join(faults, failed); failed == nil {
			a.ack() // otherwise its sender repeats it, or the next listing finds the objects
		}
	}
	return faults
}

// list publishes new objects of all paths. A fault of one path does not delay the others.
func (w *watcher) list(ctx context.Context) error {
	faults := w.stores.Close() // credentials may have changed
	w.seen.begin()
	for _, p := range w.paths {
		if err := w.publish(ctx, p); err != nil && !errors.Is(err, shard.ErrNoTars) {
			faults = errors.Join(faults, err)
		}
	}
	return faults
}

// publish publishes new objects of some paths.
func (w *watcher) publish(ctx context.Context, places ...string) error {
	if len(places) == 0 {
		return nil
	}
	o := w.o
	o.Lanes, o.Arriving, o.Remote = w.log.Config().Lanes, w.settled, w.stores.Open
	sum, _, err := dataset.Produce(ctx, places, o, w.ledger)
	if sum.Messages > 0 {
		sum.Done = 0
		PrintSummary(w.out, sum)
	}
	return err
}

// settled reports whether a tar is complete. An object is complete when it appears. A file may still grow, so its size
// and time must be unchanged since the previous listing.
func (w *watcher) settled(t shard.Tar) bool {
	if shard.IsRemote(t.URI) {
		return true
	}
	return w.seen.same(t.URI, fmt.Sprint(t.Size, t.Version))
}

// sightings remembers the states of files from one listing to the next. It forgets files that a listing lacks.
type sightings struct{ before, now map[string]string }

// begin begins a listing.
func (s *sightings) begin() { s.before, s.now = s.now, make(map[string]string) }

// same records the state of a file, and reports whether it equals the state in the previous listing.
func (s *sightings) same(uri, state string) bool {
	was, found := s.before[uri]
	s.now[uri] = state
	return found && was == state
}

// say prints a fault that the watcher survives, and reports whether there was none.
func (w *watcher) say(err error) bool {
	if failed := interrupt.Failure(err); failed != nil {
		fmt.Fprintf(w.out, "will try again: %v\n", failed)
	}
	return err == nil
}
