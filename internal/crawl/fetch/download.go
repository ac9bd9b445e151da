package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bytes and time for draining an unwanted answer, so that its connection can be used again.
const (
	maxBehind  = 2 << 10
	behindTime = 100 * time.Millisecond
)

// get queues a task that downloads the image of a URL. The task's done receives the image, a *failure or a *localError.
// get calls done itself when it cannot queue the task.
func (c *client) get(t *task, raw string) {
	t.left = c.o.Timeout
	if err := t.goTo(raw, nil); err != nil {
		t.done(nil, err)
		return
	}
	c.queue(t)
}

// goTo sends a task to a URL, which may be relative to a base. It refuses URLs that no task may visit.
func (t *task) goTo(raw string, base *url.URL) error {
	if len(raw) > maxURL {
		return &failure{reasonURL, fmt.Sprintf("longer than %d bytes", maxURL)}
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err == nil && base != nil {
		u = base.ResolveReference(u)
	}
	switch {
	case err != nil:
		return &failure{reasonURL, "it cannot be parsed"}
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return &failure{reasonURL, "want http:// or https:// with a host"}
	case len(u.String()) > maxURL:
		return &failure{reasonURL, fmt.Sprintf("longer than %d bytes", maxURL)}
	}
	if t.host, err = hostOf(u); err != nil || len(t.host) > maxHostName {
		return &failure{reasonURL, "the host's name is too long, or is none"}
	}
	_, u.Host, _ = strings.Cut(t.host, "://") // so that connections count for one host as well
	t.at = u
	return nil
}

// queue queues a task at its host, or fails it when the host is given up.
func (c *client) queue(t *task) {
	c.mu.Lock()
	queued := c.schedule.add(t, time.Now())
	c.mu.Unlock()
	c.wake()
	if !queued {
		c.finish(t, answer{}, asideFailure(t.host))
	}
}

// abandon ends a task that waits for its turn, when its caller has gone.
func (c *client) abandon(t *task) {
	c.mu.Lock()
	removed := c.schedule.remove(t, time.Now())
	c.mu.Unlock()
	if c.wake(); removed {
		c.finish(t, answer{}, classify(t.caller.Err()))
	}
}

func asideFailure(host string) error {
	return &failure{reasonAside, host + " has timed out, or asked for pauses, again and again"}
}

// pauseSaid is the shortest requested pause that SetAside reports.
const pauseSaid = 5 * time.Second

// wake makes dispatch look at the schedule.
func (c *client) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// dispatch runs the tasks of the schedule until the context ends.
func (c *client) dispatch(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		t, at := c.schedule.next(time.Now())
		c.mu.Unlock()
		if t != nil {
			running.Go(func() { c.run(ctx, t) })
			continue
		}
		timer.Stop()
		if !at.IsZero() {
			timer.Reset(time.Until(at))
		}
		select {
		case <-c.woken:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// answer is the result of a request.
type answer struct {
	asked bool          // the host was asked
	wait  time.Duration // that the host has asked for
	image []chunk
	rules *rules
	next  string // where a redirect leads
}

// run makes the request of a task. It queues the redirect, or passes on the result. It drops the result when the context
// has ended, since no caller waits for it then.
func (c *client) run(ctx context.Context, t *task) {
	limited, cancel := context.WithTimeout(ctx, t.left)
	defer cancel()
	if t.caller != nil {
		defer context.AfterFunc(t.caller, cancel)()
	}
	a, err := c.step(limited, t)
	took := time.Since(t.began)
	if ctx.Err() != nil {
		return
	}
	if _, local := errors.AsType[*localError](err); !local {
		err = classify(err)
	}
	o := c.ending(t, a, err, took)
	var next *task
	switch {
	case err == nil && a.next != "":
		next, err = t.redirected(a.next, took, c.o.Redirects)
	case o == busy && t.refusals < maxRefusals:
		next = t.again()
	}
	if next == nil {
		c.finish(t, a, err) // before the schedule gives the thread to another task
	}
	c.mu.Lock()
	pause, givenUp := c.schedule.end(t, took, o, time.Now())
	c.mu.Unlock()
	c.wake()
	if pause > 0 && (o != busy || pause >= pauseSaid) && c.o.SetAside != nil {
		c.o.SetAside(t.host, pause)
	}
	for _, g := range givenUp {
		c.finish(g, answer{}, asideFailure(t.host))
	}
	if next == nil {
		return
	}
	if c.queue(next); next.caller != nil {
		context.AfterFunc(next.caller, func() { c.abandon(next) })
	}
}

// ending returns how a task has ended, as far as its host is responsible.
func (c *client) ending(t *task, a answer, err error, took time.Duration) ending {
	switch {
	case !a.asked:
		return refused
	case t.caller != nil && t.caller.Err() != nil:
		return cutShort
	case a.next != "":
		return ledOn
	case a.wait > 0:
		t.wait = a.wait
		return busy
	case err == nil && a.rules == nil:
		return gaveImage
	case Reason(err) != reasonTimeout:
		return answered
	case 2*took < min(c.o.Timeout, robotsTimeout):
		return cutShort
	}
	return timedOut
}

// redirected returns the task that follows a redirect, unless there were too many.
func (t *task) redirected(location string, took time.Duration, most int) (*task, error) {
	if t.hops == most {
		return nil, &failure{reasonRedirects, fmt.Sprintf("more than %d", most)}
	}
	next := &task{order: t.order, left: max(t.left-took, 0), hops: t.hops + 1, refusals: t.refusals, robotsOf: t.robotsOf, to: t.to, done: t.done, caller: t.caller}
	if err := next.goTo(location, t.at); err != nil {
		return nil, err
	}
	return next, nil
}

// again returns the task that repeats the request after the pause.
func (t *task) again() *task {
	return &task{
		order: t.order, at: t.at, host: t.host, left: t.left, hops: t.hops, refusals: t.refusals + 1, robotsOf: t.robotsOf, to: t.to, done: t.done,
	}
}

// finish passes on the result of a task.
func (c *client) finish(t *task, a answer, err error) {
	if t.robotsOf == "" {
		t.done(a.image, err)
		return
	}
	now := time.Now()
	r := a.rules
	if err != nil {
		r = &rules{none: err, until: now.Add(faultKept * c.o.Timeout)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(t.robotsOf, r)
	c.schedule.rulesCame(t.robotsOf, now)
}

// step makes one request, if the host's robots.txt allows it.
func (c *client) step(ctx context.Context, t *task) (a answer, err error) {
	if t.rules != nil {
		switch allowed, err := t.rules.allows(ctx, t.at); {
		case err != nil:
			return a, err
		case !allowed:
			return a, &failure{reasonRobots, "robots.txt of " + t.host}
		}
	}
	if t.caller != nil && t.caller.Err() != nil {
		return a, t.caller.Err()
	}
	if c.proxy {
		if err := c.checkProxied(ctx, t.at.Hostname()); err != nil {
			return a, err
		}
	}
	a.asked = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.request(ctx, t.at)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	if a.next = location(response); a.next != "" {
		defer time.AfterFunc(behindTime, cancel).Stop()
		// An error does not concern the redirect: the connection is not used again.
		_, _ = io.CopyN(io.Discard, response.Body, maxBehind)
		return a, nil
	}
	if a.wait = pauseAsked(response, t.refusals, time.Now()); a.wait > 0 && t.caller == nil { // a caller gets the error at once
		return a, &failure{fmt.Sprintf("http_%d", response.StatusCode), response.Status}
	}
	a.wait = 0
	if t.robotsOf != "" {
		a.rules, err = c.readRobots(response)
	} else {
		a.image, err = c.readImage(response, t.to)
	}
	return a, err
}

// location returns the target of a redirect, or "".
func location(r *http.Response) string {
	switch r.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return r.Header.Get("Location")
	}
	return ""
}

// pauseAsked returns the pause that an answer asks for, or 0. A 429 without Retry-After means a pause that grows with
// the earlier refusals.
func pauseAsked(r *http.Response, refusals int, now time.Time) time.Duration {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := strings.TrimSpace(r.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, leastWait)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), leastWait)
	}
	if r.StatusCode == http.StatusTooManyRequests {
		return leastWait << (2 * refusals)
	}
	return 0
}

// readImage reads the image of an answer into a spool.
func (c *client) readImage(response *http.Response, to *spool) ([]chunk, error) {
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, &failure{fmt.Sprintf("http_%d", response.StatusCode), response.Status}
	case !c.o.IgnoreRobots && c.disallowed(response.Header.Values("X-Robots-Tag")):
		return nil, &failure{reasonNoAI, strings.Join(response.Header.Values("X-Robots-Tag"), ", ")}
	case encoded(response):
		return nil, &failure{reasonEncoding, "compressed without being asked to: " + strings.Join(response.Header.Values("Content-Encoding"), ", ")}
	case response.ContentLength > c.o.MaxBytes:
		return nil, tooLarge(c.o.MaxBytes)
	}
	return to.take(response.Body, c.o.MaxBytes)
}

// compressions are the codings of HTTP that change a body. Servers also send aws-chunked, binary, none or UTF-8 for an
// unchanged body.
var compressions = map[string]bool{"gzip": true, "x-gzip": true, "deflate": true, "compress": true, "x-compress": true, "br": true, "zstd": true, "dcb": true, "dcz": true}

// encoded reports whether a body is compressed.
func encoded(r *http.Response) bool {
	for _, value := range r.Header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(value, ",") {
			if compressions[strings.ToLower(strings.TrimSpace(name))] {
				return true
			}
		}
	}
	return false
}

func tooLarge(most int64) error {
	return &failure{reasonTooLarge, fmt.Sprintf("more than %d bytes", most)}
}

func (c *client) request(ctx context.Context, u *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, &failure{reasonURL, err.Error()}
	}
	r.Header.Set("User-Agent", c.o.UserAgent)
	r.Header.Set("Accept", "image/jpeg,image/png,image/webp,image/*;q=0.8")
	r.Header.Set("Accept-Encoding", "identity")
	return c.http.RoundTrip(r)
}
