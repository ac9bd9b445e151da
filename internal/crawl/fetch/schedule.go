package fetch

import (
	"container/heap"
	"container/list"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxHosts bounds the remembered hosts without tasks.
const maxHosts = 1 << 14

// A host is set aside after maxTimeouts in a row. Pauses are multiples of Options.Timeout, and each doubles the previous
// one.
const (
	maxTimeouts = 4
	firstPause  = 2
	maxPause    = 64
)

// Pauses that hosts ask for with Retry-After.
const (
	maxRefusals   = 3 // of one row, after which it fails
	leastWait     = time.Second
	maxWait       = 2 * time.Minute // a host that asks for more is set aside
	maxPatience   = 10 * time.Minute
	imagePatience = time.Second // that a host earns with an image
)

// The trust in hosts. A busy machine makes an answer slow now and then, so a host can earn more trust than one slow
// answer costs.
const (
	slowPart = 4 // an answer is slow when it takes more than this part of the timeout
	slowCost = 8 // what a slow answer costs, in quick ones
	maxTrust = 4 * slowCost
)

// The worth of hosts: one image outweighs this many rows without one.
const (
	imageWorth = 4
	maxWorth   = 8 * imageWorth
)

// Slow requests need no thread. Their number is bounded by these multiples of the threads: for slow hosts, and others.
const (
	maxSlow    = 3
	maxStalled = 4
	stallPart  = 16 // a request returns its thread after this part of the timeout
	probePart  = 64 // and after this part if its host has not answered yet
)

// task is a request that waits for its turn at a host. It is for the image of a row, or for the robots.txt of a host. A
// redirect makes it wait at the next host.
type task struct {
	order    int64 // rows go in the order of the list
	at       *url.URL
	host     string        // of at, as hostOf names it
	left     time.Duration // for the remaining requests
	hops     int
	robotsOf string                         // the host whose robots.txt is wanted; then no host's rules are asked
	rules    *rules                         // those of the host, from the moment when the task is taken
	to       *spool                         // takes the image of a row
	done     func(image []chunk, err error) // of a row
	refusals int                            // answers that have asked for a pause
	caller   context.Context                //nolint:containedctx // when it ends, the image is not wanted; may be nil

	place   int   // in the heap of its host, while it waits
	class   class // while it runs
	began   time.Time
	among   *patience
	going   *list.Element // in there; nil when it has no thread any more
	stalled bool
	wait    time.Duration // that its answer has asked for
}

// limits bound the requests of a schedule.
type limits struct {
	threads, perHost int
	rate             float64
	timeout          time.Duration
}

// schedule decides which request is next. It has no clock of its own, and is not safe for concurrent use.
//
//  1. A host has at most perHost requests at once, and after the first perHost ones at most rate a second.
//  2. A host that is set aside gets no requests. After the pause it gets one; when that times out, the next pause doubles.
//     A host that asks for a pause (429, or 503 with Retry-After) gets it, and one request afterwards, within bounds.
//  3. A quarter of the threads is reserved for quick hosts. They go first while doubtful hosts have an eighth. Slow hosts
//     get no threads: a bounded number of their requests runs besides.
//  4. A request that takes long returns its thread, unless too many have done so. A host that has not answered yet gets
//     one thread, for a shorter time.
//  5. Among the tasks that may go, the first row of the list goes first. Unknown hosts precede other doubtful ones.
type schedule struct {
	limits
	rulesOf func(host string, now time.Time) *rules // returns nil when they have to be read; itself nil where robots.txt is ignored
	ask     func(host string) *task                 // for its robots.txt

	active  map[string]*host // with tasks
	idle    *simplelru.LRU[string, *host]
	ready   [classes]hosts
	waiting hosts // for the clock
	running [classes]int
	usual   patience // with a host that has answered
	probing patience // with others
	stalled int
	latest  int64 // the highest order of a row that was taken
}

// patience lists the requests that hold a thread, in the order in which they began. Each may hold it for time.
type patience struct {
	list.List
	time time.Duration
}

func newSchedule(l limits) (*schedule, error) {
	s := &schedule{limits: l, active: map[string]*host{}}
	s.usual.time, s.probing.time = l.timeout/stallPart, l.timeout/probePart
	for i := range s.ready {
		s.ready[i].less = func(a, b *host) bool { return a.order() < b.order() }
	}
	s.ready[doubtful].less = func(a, b *host) bool {
		if a.isNew() != b.isNew() {
			return a.isNew()
		}
		return a.order() < b.order()
	}
	s.waiting.less = func(a, b *host) bool { return a.ready.Before(b.ready) }
	var err error
	s.idle, err = simplelru.NewLRU[string, *host](maxHosts, nil)
	return s, err
}

// add queues a task at the host of its URL. It returns false, without queueing the task, when the host is given up.
func (s *schedule) add(t *task, now time.Time) bool {
	h := s.host(t.host, now)
	if h.pauses > 1 && now.Before(h.until) {
		s.settle(h, now)
		return false
	}
	if t.robotsOf != "" {
		h.first = append(h.first, t)
	} else {
		heap.Push(&h.rows, t)
	}
	s.settle(h, now)
	return true
}

// remove takes a row out of the queue of its host, if it is there.
func (s *schedule) remove(t *task, now time.Time) bool {
	h := s.active[t.host]
	if h == nil {
		return false
	}
	at := t.place
	if at >= len(h.rows) || h.rows[at] != t { // it runs, or was given up
		return false
	}
	if h.in != nil {
		heap.Remove(h.in, h.place) // whose order may be the row's
	}
	heap.Remove(&h.rows, at)
	s.settle(h, now)
	return true
}

func (s *schedule) host(name string, now time.Time) *host {
	if h, ok := s.active[name]; ok {
		return h
	}
	h, ok := s.idle.Get(name)
	if ok {
		s.idle.Remove(name)
	} else {
		h = &host{name: name, tokens: float64(s.perHost), filled: now, patience: maxPatience}
	}
	s.active[name] = h
	return h
}

// next takes the task that goes now. Without one it returns the time of the next call, unless an event comes earlier.
// The zero time means never.
func (s *schedule) next(now time.Time) (*task, time.Time) {
	for s.waiting.Len() > 0 && !s.waiting.all[0].ready.After(now) {
		s.settle(s.waiting.all[0], now)
	}
	stalls := s.stall(now)
	h := s.first()
	for h != nil && len(h.first) == 0 && s.rulesOf != nil && s.rulesOf(h.name, now) == nil {
		s.settle(h, now) // its rules were given up meanwhile
		h = s.first()
	}
	if h == nil {
		if s.waiting.Len() > 0 && (stalls.IsZero() || s.waiting.all[0].ready.Before(stalls)) {
			return nil, s.waiting.all[0].ready
		}
		return nil, stalls
	}
	t := h.take(s.perHost, s.rate, now)
	if t.robotsOf == "" && s.rulesOf != nil {
		t.rules = s.rulesOf(h.name, now)
	}
	t.class, t.began = h.class(), now
	s.latest = max(s.latest, t.order)
	if t.class != slow {
		if t.among = &s.usual; !h.answered {
			t.among = &s.probing
		}
		t.going = t.among.PushBack(t)
	}
	h.running++
	s.running[t.class]++
	s.settle(h, now)
	return t, time.Time{}
}

// stall takes the threads of tasks that take long, and returns the time of the next such task.
func (s *schedule) stall(now time.Time) (next time.Time) {
	for _, p := range []*patience{&s.probing, &s.usual} {
		for p.Len() > 0 && s.stalled < maxStalled*s.threads {
			t := p.Front().Value.(*task)
			if at := t.began.Add(p.time); at.After(now) {
				if next.IsZero() || at.Before(next) {
					next = at
				}
				break
			}
			s.leave(t)
			t.stalled = true
			s.stalled++
			h := s.active[t.host]
			h.stalled++
			s.settle(h, now)
		}
	}
	return next
}

// leave removes a task from the running ones.
func (s *schedule) leave(t *task) {
	if t.going != nil {
		t.among.Remove(t.going)
		t.going = nil
	}
	s.running[t.class]--
}

// first returns the host whose task goes first, or nil.
func (s *schedule) first() (h *host) {
	for c := range classes {
		if c == doubtful && h != nil && s.running[doubtful] >= max(s.threads/8, 1) {
			continue // h is quick
		}
		if s.ready[c].Len() > 0 && s.hasRoom(c) && (h == nil || s.ready[c].all[0].order() < h.order()) {
			h = s.ready[c].all[0]
		}
	}
	return h
}

// hasRoom reports whether a thread is free for a host of a class.
func (s *schedule) hasRoom(c class) bool {
	all := s.running[quick] + s.running[doubtful]
	switch c {
	case slow:
		return s.running[slow] < maxSlow*s.threads
	case doubtful:
		return all < s.threads && s.running[doubtful] < s.threads-s.threads/4
	case quick, classes:
	}
	return all < s.threads
}

// end records how a task ended, and how long it took. It returns the pause of a host that is set aside, and the tasks
// that are given up with it.
func (s *schedule) end(t *task, took time.Duration, o ending, now time.Time) (pause time.Duration, givenUp []*task) {
	h := s.active[t.host]
	h.running--
	if t.stalled {
		s.stalled--
		h.stalled--
	} else {
		s.leave(t)
	}
	switch {
	case o == refused:
		h.tokens = min(h.tokens+1, float64(s.perHost)) // nothing was asked of the host
	case o == timedOut:
		h.trust, h.answered = max(h.trust-slowCost, -slowCost), true
		if h.timeouts++; !t.began.Before(h.until) && (h.pauses > 0 || h.timeouts >= maxTimeouts) {
			pause, givenUp = s.setAside(h, now)
		}
	case o == cutShort:
	case o == busy:
		h.trust, h.answered, h.timeouts = max(h.trust, 1), true, 0
		pause, givenUp = s.pause(h, t.wait, now)
	case took > s.timeout/slowPart:
		h.trust, h.answered = max(h.trust-slowCost, -slowCost), true
		h.wake()
	default:
		if t.robotsOf == "" {
			h.trust, h.answered = min(h.trust+1, maxTrust), true
		}
		h.wake()
	}
	switch o {
	case gaveImage:
		h.worth = min(h.worth+imageWorth, maxWorth)
		h.patience = min(h.patience+imagePatience, maxPatience)
	case answered, timedOut:
		h.worth = max(h.worth-1, 0)
	case ledOn, refused, cutShort, busy:
	}
	s.settle(h, now)
	return pause, givenUp
}

// rulesCame releases the rows of a host after its robots.txt was read.
func (s *schedule) rulesCame(name string, now time.Time) {
	if h := s.active[name]; h != nil {
		h.asking = false
		s.settle(h, now)
	}
}

// setAside begins a pause. From the second pause on, it gives up the waiting tasks.
func (s *schedule) setAside(h *host, now time.Time) (pause time.Duration, givenUp []*task) {
	pause = s.timeout * time.Duration(min(firstPause<<min(h.pauses, 16), maxPause))
	h.until = now.Add(pause)
	if h.pauses++; h.pauses > 1 {
		givenUp = slices.Concat(h.first, h.rows)
		h.first, h.rows = nil, nil
	}
	return pause, givenUp
}

// pause grants a host the pause that it asks for. A host that asks for too much is set aside for that time.
func (s *schedule) pause(h *host, asked time.Duration, now time.Time) (pause time.Duration, givenUp []*task) {
	h.busy = true
	if asked = max(asked, leastWait); now.Add(asked).After(h.later) {
		h.patience -= asked - max(h.later.Sub(now), 0)
		h.later = now.Add(min(asked, s.timeout*maxPause))
	}
	if asked <= maxWait && h.patience >= 0 {
		return asked, nil
	}
	h.pauses, h.patience = max(h.pauses, 1), 0 // so that waiting tasks are given up
	pause, givenUp = s.setAside(h, now)
	return max(pause, h.later.Sub(now)), givenUp
}

// ending classifies the end of a task, for its host.
type ending int

const (
	answered ending = iota
	gaveImage
	ledOn // to another URL
	timedOut
	refused  // by robots.txt, before any request
	cutShort // because another host left too little time
	busy     // it has asked for a pause
)

// settle moves a host to the heap that it belongs to: the ready hosts, those that wait for the clock, or neither.
func (s *schedule) settle(h *host, now time.Time) {
	if h.in != nil {
		heap.Remove(h.in, h.place)
	}
	if len(h.rows) > 0 && len(h.first) == 0 && s.rulesOf != nil && !h.asking && s.rulesOf(h.name, now) == nil {
		h.asking = true
		t := s.ask(h.name)
		t.order = h.rows[0].order
		h.first = append(h.first, t)
	}
	switch at := h.free(s.perHost, s.rate, now); {
	case len(h.first) == 0 && len(h.rows) == 0 && h.running == 0 && !h.asking:
		delete(s.active, h.name)
		s.idle.Add(h.name, h)
	case h.running >= h.most(s.perHost), len(h.first) == 0 && (len(h.rows) == 0 || h.asking):
	case at.After(now):
		h.ready = at
		heap.Push(&s.waiting, h)
	default:
		heap.Push(&s.ready[h.class()], h)
	}
}
