package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// The reasons why a URL gave no image. Answers of servers are "http_404" and the like.
const (
	reasonURL       = "bad_url"
	reasonAddress   = "forbidden_address"
	reasonRobots    = "robots"
	reasonNoAI      = "robots_tag"
	reasonRedirects = "redirects"
	reasonAside     = "host_set_aside"
	reasonRow       = "bad_row"
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

// maxDetail bounds the text of a server in a failure.
const maxDetail = 200

// disallowing lists the directives of X-Robots-Tag that img2dataset obeys too.
var disallowing = map[string]bool{"noai": true, "noimageai": true, "noindex": true, "noimageindex": true}

// robotsTimeout bounds the time for a robots.txt.
const robotsTimeout = 10 * time.Second

// maxURL bounds a URL, in bytes.
const maxURL = 8 << 10

// maxHostName bounds the name of a host, as DNS does, with its scheme and port.
const maxHostName = 253 + len("https://:65535")

// client downloads single images.
type client struct {
	o     Options
	http  *http.Transport
	proxy bool          // requests go through one
	agent string        // our name in robots.txt
	woken chan struct{} // holds a token when the schedule may have a task

	writing chan struct{} // of tars

	mu       sync.Mutex
	schedule *schedule
	robots   *simplelru.LRU[string, *rules] // by host, as many as maxRobotsKept allows
	kept     int64                          // bytes of these
	proxied  *simplelru.LRU[string, error]  // what checkProxied has looked up
}

func newClient(o Options) (*client, error) {
	agent, _, _ := strings.Cut(o.UserAgent, "/")
	c := &client{o: o, agent: strings.ToLower(agent), woken: make(chan struct{}, 1), writing: make(chan struct{}, shardsWritten)}
	var err error
	if c.robots, err = simplelru.NewLRU(maxHosts, func(_ string, r *rules) { c.kept -= r.size }); err != nil {
		return nil, err
	}
	if c.schedule, err = newSchedule(limits{threads: o.Threads, perHost: o.PerHost, rate: o.HostRate, timeout: o.Timeout}); err != nil {
		return nil, err
	}
	if !o.IgnoreRobots {
		c.schedule.rulesOf, c.schedule.ask = c.rulesOf, c.askRobots
	}
	if c.proxied, err = simplelru.NewLRU[string, error](maxHosts, nil); err != nil {
		return nil, err
	}
	connect := min(connectTimeout, o.Timeout)
	c.http = &http.Transport{ // without the proxy of the environment, which would connect where the guard does not look
		DialContext: guardedDialer(o.AllowLoopback, connect).DialContext, DisableCompression: true, ForceAttemptHTTP2: true,
		MaxIdleConns: 4 * o.Threads, MaxIdleConnsPerHost: o.PerHost, MaxConnsPerHost: o.PerHost, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: connect,
	}
	proxy, err := o.proxy()
	if proxy != nil {
		c.proxy = true
		throughProxy(c.http, proxy, connect)
	}
	return c, err
}

// disallowed reports whether the values of X-Robots-Tag forbid the use. A value may begin with the agent that it is
// for.
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
	if err == nil {
		return nil
	}
	f := failure{reasonNetwork, err.Error()}
	network, failed := errors.AsType[net.Error](err)
	if known, ok := errors.AsType[*failure](err); ok {
		f = *known
	} else if errors.Is(err, errAddress) {
		f.reason = reasonAddress
	} else if errors.Is(err, context.DeadlineExceeded) || failed && network.Timeout() {
		f.reason = reasonTimeout
	}
	return &failure{f.reason, cut(f.detail)}
}

// cut bounds a text. It copies the text, so that the rest of the answer can be freed.
func cut(text string) string { return strings.Clone(text[:min(len(text), maxDetail)]) }

// errAddress means that a host has an address inside a private network.
var errAddress = errors.New("the address is not one of the public internet")

// inside lists the networks outside the public internet that netip has no predicate for. Of IPv6, only 2000::/3 is
// public, which excludes the translations of IPv4 (64:ff9b::/96) and local addresses (fc00::/7).
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

// public reports whether an address belongs to the public internet.
func public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && (a.Is4() || publicIPv6.Contains(a)) &&
		!slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Contains(a) })
}

// connectTimeout bounds the time for a connection.
const connectTimeout = 10 * time.Second

// guardedDialer connects only to the public internet. It checks the address of each connection, so neither a redirect
// nor a changed answer of DNS leads elsewhere.
func guardedDialer(allowLoopback bool, timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", errAddress, address)
		}
		switch ip := at.Addr().Unmap(); {
		case network != "tcp4" && network != "tcp6":
			return fmt.Errorf("%w: network %s", errAddress, network)
		case allowLoopback && ip == loopback:
			return nil
		case !public(at.Addr()):
			return fmt.Errorf("%w: %s", errAddress, ip)
		}
		return nil
	}}
}
