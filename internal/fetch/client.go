package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/pairstream/pairstream/internal/shard"
)

// Why a URL gave no image. Answers of servers are "http_404" and the like.
const (
	reasonURL       = "bad_url"
	reasonAddress   = "forbidden_address"
	reasonRobots    = "robots"
	reasonNoAI      = "robots_tag"
	reasonRedirects = "redirects"
	reasonTimeout   = "timeout"
	reasonNetwork   = "network"
	reasonEncoding  = "content_encoding"
	reasonTooLarge  = "too_large"
	reasonCut       = "cut"
	reasonEmpty     = "empty"
	reasonNoImage   = "not_image"
	reasonCaption   = "no_caption"
)

// failure is an outcome other than an image.
type failure struct {
	reason, detail string
}

func (f *failure) Error() string { return f.reason + ": " + f.detail }

// disallowing lists the directives of X-Robots-Tag that img2dataset honours as well.
var disallowing = map[string]bool{"noai": true, "noimageai": true, "noindex": true, "noimageindex": true}

// maxHosts bounds the hosts whose limits and robots.txt are kept.
const maxHosts = 1 << 14

// robotsTimeout bounds the time for a robots.txt.
const robotsTimeout = 10 * time.Second

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// client downloads single images.
type client struct {
	o     Options
	http  *http.Client
	agent string        // the name that robots.txt calls us by
	slots chan struct{} // of downloads

	mu     sync.Mutex
	hosts  *simplelru.LRU[string, *host]
	robots *simplelru.LRU[string, *rules] // by host, as many as maxRobotsKept allows
	kept   int64                          // bytes of these
}

// host is what is known of a host, with its limits.
type host struct {
	slots   chan struct{}
	limiter *rate.Limiter

	asking chan struct{} // holds one token: who has it reads robots.txt
}

func newClient(o Options) (*client, error) {
	hosts, err := simplelru.NewLRU[string, *host](maxHosts, nil)
	if err != nil {
		return nil, err
	}
	agent, _, _ := strings.Cut(o.UserAgent, "/")
	c := &client{o: o, hosts: hosts, agent: strings.ToLower(agent), slots: make(chan struct{}, o.Threads)}
	if c.robots, err = simplelru.NewLRU(maxHosts, func(_ string, r *rules) { c.kept -= r.size }); err != nil {
		return nil, err
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: guardedDialer(o.AllowLoopback).DialContext, DisableCompression: true, ForceAttemptHTTP2: true, // no proxy: it would connect where the guard does not look
			MaxIdleConns: o.Threads, MaxIdleConnsPerHost: o.PerHost, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
			TLSHandshakeTimeout: connectTimeout,
		},
		CheckRedirect: c.redirect,
	}
	return c, nil
}

func (c *client) host(u *url.URL) *host {
	key := u.Scheme + "://" + u.Host
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.hosts.Get(key); ok {
		return h
	}
	h := &host{slots: make(chan struct{}, c.o.PerHost), limiter: rate.NewLimiter(rate.Limit(c.o.HostRate), c.o.PerHost), asking: make(chan struct{}, 1)}
	c.hosts.Add(key, h)
	return h
}

// get returns the image of a URL, or a *failure.
func (c *client) get(ctx context.Context, raw string) ([]byte, error) {
	if len(raw) > maxURL {
		return nil, &failure{reasonURL, fmt.Sprintf("longer than %d bytes", maxURL)}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, &failure{reasonURL, "want http:// or https:// with a host"}
	}
	h := c.host(u)
	select { // waiting for the host's turn is no part of its time
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.slots }()
	if err := h.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	data, err := c.download(limited, u)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return data, classify(err)
}

func (c *client) download(ctx context.Context, u *url.URL) ([]byte, error) {
	if err := c.allowed(ctx, u); err != nil {
		return nil, err
	}
	response, err := c.request(ctx, u)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, &failure{fmt.Sprintf("http_%d", response.StatusCode), response.Status}
	case !c.o.IgnoreRobots && c.disallowed(response.Header.Values("X-Robots-Tag")):
		return nil, &failure{reasonNoAI, strings.Join(response.Header.Values("X-Robots-Tag"), ", ")}
	case response.Header.Get("Content-Encoding") != "" && response.Header.Get("Content-Encoding") != "identity":
		return nil, &failure{reasonEncoding, "compressed without being asked to: " + response.Header.Get("Content-Encoding")}
	case response.ContentLength > c.o.MaxBytes:
		return nil, tooLarge(c.o.MaxBytes)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, c.o.MaxBytes+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &failure{reasonCut, "the body ends early"}
	case err != nil:
		return nil, err
	case int64(len(data)) > c.o.MaxBytes:
		return nil, tooLarge(c.o.MaxBytes)
	case len(data) == 0:
		return nil, &failure{reasonEmpty, "the body has no bytes"}
	case shard.Extension(data) == "bin":
		return nil, &failure{reasonNoImage, "the body is no JPEG, PNG or WebP"}
	}
	return data, nil
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
	return c.http.Do(r)
}

// readingRobots marks requests for robots.txt, whose redirects need no permission.
type readingRobots struct{}

// redirect follows a redirect, if there were not too many and the next host allows it.
func (c *client) redirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > c.o.Redirects:
		return &failure{reasonRedirects, fmt.Sprintf("more than %d", c.o.Redirects)}
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return &failure{reasonURL, "redirected to " + r.URL.Scheme}
	case len(r.URL.String()) > maxURL:
		return &failure{reasonURL, fmt.Sprintf("redirected to a URL of more than %d bytes", maxURL)}
	case r.Context().Value(readingRobots{}) != nil:
		return nil
	}
	return c.allowed(r.Context(), r.URL)
}

// allowed asks the host's robots.txt. A host that has none allows everything; one that fails to answer, nothing. Of several
// downloads one reads it, and the others wait for as long as they have time.
func (c *client) allowed(ctx context.Context, u *url.URL) error {
	if c.o.IgnoreRobots {
		return nil
	}
	h := c.host(u)
	select {
	case h.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := c.rules(ctx, u)
	<-h.asking
	if err != nil {
		return err
	}
	switch allowed, err := r.allows(ctx, u); {
	case err != nil:
		return err
	case !allowed:
		return &failure{reasonRobots, "robots.txt of " + u.Host}
	}
	return nil
}

// rules returns the rules of a URL's host, which it reads when they are not there. A fault is kept like rules, unless the
// download had little time left for the host.
func (c *client) rules(ctx context.Context, u *url.URL) (*rules, error) {
	key := u.Scheme + "://" + u.Host
	c.mu.Lock()
	r, known := c.robots.Get(key)
	c.mu.Unlock()
	if known {
		return r, nil
	}
	began := time.Now()
	reading, cancel := context.WithTimeout(context.WithValue(ctx, readingRobots{}, true), robotsTimeout)
	defer cancel()
	r, err := c.readRobots(reading, &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"})
	switch {
	case ctx.Err() != nil && time.Since(began) < min(c.o.Timeout, robotsTimeout)/2:
		return nil, ctx.Err()
	case err != nil:
		r = &rules{none: err}
	}
	c.keep(key, r)
	return r, nil
}

// keep keeps the rules of a host, and gives up those that were asked for longest ago when all take too much.
func (c *client) keep(key string, r *rules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.robots.Add(key, r)
	c.kept += r.size
	for c.kept > maxRobotsKept && c.robots.Len() > 1 {
		c.robots.RemoveOldest()
	}
}

// readRobots reads a robots.txt. A server without one allows everything, and one that is at fault nothing.
func (c *client) readRobots(ctx context.Context, u *url.URL) (*rules, error) {
	response, err := c.request(ctx, u)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= 400 && response.StatusCode < 500:
		return &rules{}, nil
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return nil, &failure{reasonRobots, "robots.txt cannot be read: " + response.Status}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxRobotsBytes))
	if err != nil {
		return nil, err
	}
	return parseRobots(string(raw), c.agent), nil
}

// disallowed reports whether the values of X-Robots-Tag forbid the use. A value may begin with the agent that it is for.
func (c *client) disallowed(values []string) bool {
	for _, v := range values {
		agent, rest, found := strings.Cut(strings.ToLower(v), ":")
		if agent = strings.TrimSpace(agent); found && !strings.Contains(agent, ",") && agent != "unavailable_after" {
			if agent != c.agent && agent != "*" {
				continue
			}
			v = rest
		}
		for d := range strings.SplitSeq(v, ",") {
			if disallowing[strings.ToLower(strings.TrimSpace(d))] {
				return true
			}
		}
	}
	return false
}

// classify makes a *failure of any fault.
func classify(err error) error {
	var known *failure
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, errAddress):
		return &failure{reasonAddress, err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return &failure{reasonTimeout, err.Error()}
	}
	return &failure{reasonNetwork, err.Error()}
}
