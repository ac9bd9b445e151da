package fetch

import (
	"container/heap"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// class rates the answers of a host so far.
type class int

const (
	quick    class = iota // it sends images quickly
	doubtful              // no row of it has ended, or the rows gave no images
	slow
	classes
)

// host holds the history of a host and the tasks that wait for it.
type host struct {
	name    string
	running int
	stalled int     // of these, so many have no thread any more
	first   []*task // requests for robots.txt, which go first
	rows    tasks
	asking  bool // robots.txt is being asked for

	tokens float64 // requests that the rate leaves
	filled time.Time

	trust    int
	worth    int // above 0: it gives images
	answered bool
	timeouts int       // in a row
	pauses   int       // in a row
	until    time.Time // set aside until then

	busy     bool          // it has asked for a pause, and has not answered since
	later    time.Time     // the end of that pause
	patience time.Duration // what it may still ask for

	in    *hosts // the heap that holds it
	place int
	ready time.Time // in the heap of those that wait for the clock
}

// hostOf names the host of a URL, with its scheme and port, since RFC 9309 has a robots.txt for each. It maps all forms
// of a name to one.
func hostOf(u *url.URL) (string, error) {
	name := u.Hostname()
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", err
		}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if ip, err := netip.ParseAddr(name); err == nil {
		if name = ip.Unmap().String(); strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
	}
	if name == "" {
		return "", errors.New("it has no name")
	}
	if text := strings.TrimLeft(u.Port(), "0"); text != "" && (u.Scheme != "http" || text != "80") && (u.Scheme != "https" || text != "443") {
		if _, err := strconv.ParseUint(text, 10, 16); err != nil {
			return "", errors.New("there is no such port")
		}
		name += ":" + text
	}
	return u.Scheme + "://" + name, nil
}

// wake ends a pause, as the host has answered.
func (h *host) wake() { h.timeouts, h.pauses, h.until, h.busy = 0, 0, time.Time{}, false }

func (h *host) class() class {
	switch {
	case h.answered && h.trust <= 0:
		return slow
	case h.worth > 0:
		return quick
	}
	return doubtful
}

// isNew reports whether the host has never answered, and no request to it is running.
func (h *host) isNew() bool { return !h.answered && h.running == 0 }

// most returns how many requests the host may have at once. A host that has not answered yet gets another request when
// the previous one takes long. A host that was set aside, or asked for a pause, gets one until it answers.
func (h *host) most(perHost int) int {
	switch {
	case h.pauses > 0 || h.busy:
		return 1
	case !h.answered:
		return min(h.stalled+1, perHost)
	}
	return perHost
}

// order returns the order of the host's next task.
func (h *host) order() int64 {
	if len(h.first) > 0 {
		return h.first[0].order
	}
	return h.rows[0].order
}

// take removes the host's next task, and charges its cost to the rate.
func (h *host) take(burst int, rate float64, now time.Time) *task {
	h.fill(burst, rate, now)
	if len(h.first) > 0 {
		t := h.first[0]
		h.first = h.first[1:]
		if t.costs(h.name) {
			h.tokens--
		}
		return t
	}
	h.tokens--
	return heap.Pop(&h.rows).(*task)
}

// costs reports whether a task counts against the rate of a host. The host's own robots.txt does not: it is read once.
func (t *task) costs(name string) bool { return t.robotsOf != name }

func (h *host) fill(burst int, rate float64, now time.Time) {
	h.tokens = min(h.tokens+now.Sub(h.filled).Seconds()*rate, float64(burst))
	h.filled = now
}

// free returns when the host's next task may go.
func (h *host) free(burst int, rate float64, now time.Time) time.Time {
	h.fill(burst, rate, now)
	at := now
	if free := len(h.first) > 0 && !h.first[0].costs(h.name); !free && h.tokens < 1 {
		// A nanosecond more than the quotient, so that rounding leaves no remainder.
		at = now.Add(time.Duration((1-h.tokens)/rate*float64(time.Second)) + 1)
	}
	for _, end := range []time.Time{h.until, h.later} {
		if at.Before(end) {
			at = end
		}
	}
	return at
}

// tasks is a heap of tasks by their order.
type tasks []*task

func (q tasks) Len() int           { return len(q) }
func (q tasks) Less(i, j int) bool { return q[i].order < q[j].order }

func (q tasks) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *tasks) Push(x any) {
	t := x.(*task)
	t.place = len(*q)
	*q = append(*q, t)
}

func (q *tasks) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
}

// hosts is a heap of hosts, which know their positions.
type hosts struct {
	all  []*host
	less func(a, b *host) bool
}

func (q *hosts) Len() int           { return len(q.all) }
func (q *hosts) Less(i, j int) bool { return q.less(q.all[i], q.all[j]) }
func (q *hosts) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.all[i].place, q.all[j].place = i, j
}

func (q *hosts) Push(x any) {
	h := x.(*host)
	h.in, h.place = q, len(q.all)
	q.all = append(q.all, h)
}

func (q *hosts) Pop() any {
	last := len(q.all) - 1
	h := q.all[last]
	q.all[last] = nil
	q.all = q.all[:last]
	h.in = nil
	return h
}
