package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

const (
	flowEvery    = 2 * time.Second
	flowSilence  = 12 * time.Second // without an answer from Kafka, after which pages show a notice
	stalledAfter = time.Minute      // with records to take and none taken
	rateWindow   = 15 * time.Second
	mostEvents   = 64 // browsers that follow at a time
)

// flow polls the state of the run, for all browsers.
type flow struct {
	s         *Server
	collector *inspect.Collector

	mu      sync.Mutex
	view    *flowView
	html    []byte
	at      time.Time // of the last answer
	started time.Time
	changed chan struct{} // closed when there is a new view
	viewers int

	seen  []*inspect.Status // of the last rateWindow
	moved map[string]movement
	busy  map[string]busyAt
	began time.Time // the first pair; zero: not known yet
}

// movement is the time at which a stage last took or wrote a record.
type movement struct {
	taken, made int64
	at          time.Time
}

type busyAt struct {
	worked time.Duration
	at     time.Time
}

func newFlow(s *Server) *flow {
	return &flow{
		s: s, collector: inspect.NewCollector(s.o.Log, s.o.GroupSize), started: time.Now(), changed: make(chan struct{}),
		moved: make(map[string]movement), busy: make(map[string]busyAt),
	}
}

// run collects until ctx ends. It repeats a request that Kafka does not answer.
func (f *flow) run(ctx context.Context) error {
	for {
		cctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		status, err := f.collector.Collect(cctx, time.Now())
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			f.s.o.Logger.Debug("reading the state of the run", keyErr, err)
			f.publish(nil)
		default:
			f.publish(f.make(ctx, status))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(flowEvery):
		}
	}
}

// publish sends a view to all browsers. nil means that Kafka did not answer: the last view stays, with a notice.
func (f *flow) publish(v *flowView) {
	notice := f.notice()
	f.mu.Lock()
	if v != nil {
		f.at, notice = time.Now(), ""
	} else if f.view != nil {
		again := *f.view
		v = &again
	}
	f.mu.Unlock()
	if v == nil {
		return
	}
	v.Notice = notice
	var b bytes.Buffer
	if err := f.s.pages["flow.html"].ExecuteTemplate(&b, "flow", v); err != nil {
		f.s.o.Logger.Error("the console's flow cannot be shown", keyErr, err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view, f.html = v, b.Bytes()
	close(f.changed)
	f.changed = make(chan struct{})
}

// notice returns a sentence about the time without an answer from Kafka, or "" while it answers.
func (f *flow) notice() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.at
	if last.IsZero() {
		last = f.started
	}
	if silence := time.Since(last); silence > flowSilence {
		return fmt.Sprintf("Kafka (%s) has not answered since %s. This page shows the state of that time; the console continues by itself.",
			strings.Join(f.s.o.Log.Config().Brokers, ", "), last.Local().Format("15:04:05"))
	}
	return ""
}

func (f *flow) latest() (*flowView, []byte, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.html, f.changed
}

// enter counts a browser. It refuses one above the bound.
func (f *flow) enter(by int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.viewers+by > mostEvents {
		return false
	}
	f.viewers += by
	return true
}

func (s *Server) flowPage(w http.ResponseWriter, r *http.Request) error {
	view, _, _ := s.flow.latest()
	if view == nil {
		view = &flowView{Waiting: true}
	}
	latest, err := s.o.Index.Latest(r.Context(), 12)
	if err != nil {
		return err
	}
	totals, err := s.o.Index.Totals(r.Context())
	if err != nil {
		return err
	}
	return s.answer(w, r, "flow.html", page{Title: "Flow", Path: "/", Data: struct {
		Flow   *flowView
		Latest []*index.Pair
		Totals index.Totals
	}{view, latest, totals}})
}

// flowEvents sends the picture again whenever it changes, as server-sent events.
func (s *Server) flowEvents(w http.ResponseWriter, r *http.Request) error {
	if !s.flow.enter(1) {
		http.Error(w, "Too many browsers follow the console.", http.StatusServiceUnavailable)
		return nil
	}
	defer s.flow.enter(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	for {
		_, html, changed := s.flow.latest()
		if html != nil {
			var b bytes.Buffer
			for line := range bytes.Lines(html) {
				fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
			}
			b.WriteByte('\n')
			if err := c.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
				return err
			}
			if _, err := w.Write(b.Bytes()); err != nil {
				return nil //nolint:nilerr // the browser is gone
			}
			if err := c.Flush(); err != nil {
				return nil //nolint:nilerr // the browser is gone
			}
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-changed:
		}
	}
}

// taken returns how many records of its input a stage has taken.
func taken(s *inspect.Status, stage inspect.Stage) int64 {
	return recordsOf(s, stage.Reads) - stage.Lag
}

func recordsOf(s *inspect.Status, topic schemas.Topic) int64 {
	for _, t := range s.Topics {
		if t.Topic == topic {
			return t.Records
		}
	}
	return 0
}

func pairsOf(s *inspect.Status) (n int64) {
	for _, l := range s.Lanes {
		n += l.Pairs
	}
	return n
}
