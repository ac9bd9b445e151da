package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// lookupTime bounds the look-up of a name that a proxy will look up itself.
const lookupTime = 2 * time.Second

// proxy returns the URL of the proxy, or nil. Its error does not quote the URL, which may contain a password.
func (o Options) proxy() (*url.URL, error) {
	if o.Proxy == "" {
		return nil, nil //nolint:nilnil // there is no proxy
	}
	u, err := url.Parse(o.Proxy)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return nil, errors.New("--proxy: want a URL such as http://proxy.example.org:3128, of scheme http, https or socks5")
	}
	return u, nil
}

// throughProxy makes a transport connect only to a proxy. The user has chosen it, so it may have any address.
func throughProxy(t *http.Transport, proxy *url.URL, connect time.Duration) {
	t.Proxy = http.ProxyURL(proxy)
	t.DialContext = (&net.Dialer{Timeout: connect}).DialContext
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = 0, t.MaxIdleConns // of the proxy; the schedule bounds those of a host
}

// reachProxy connects to the proxy once. Without the proxy, all rows would fail permanently.
func (c *client) reachProxy(ctx context.Context) error {
	proxy, err := c.o.proxy()
	if err != nil || proxy == nil {
		return err
	}
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[proxy.Scheme]
	}
	conn, err := c.http.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return fmt.Errorf("reaching the proxy (--proxy): %w", err)
	}
	return conn.Close()
}

// checkProxied refuses a host inside a network. A proxy would connect to it, and the dialer sees only the proxy's
// address. checkProxied checks addresses and reserved names, and looks up other names. Without an answer of DNS, the
// proxy decides.
func (c *client) checkProxied(ctx context.Context, host string) error {
	name := strings.ToLower(host)
	if ip, err := netip.ParseAddr(name); err == nil {
		return c.checkAddress(ip)
	}
	reserved := func(zone string) bool { return strings.HasSuffix(name, zone) }
	if !strings.Contains(name, ".") ||
		slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".lan", ".intranet", ".home.arpa"}, reserved) {
		return fmt.Errorf("%w: %s", errAddress, name)
	}
	c.mu.Lock()
	err, known := c.proxied.Get(name)
	c.mu.Unlock()
	if !known {
		err = c.lookUp(ctx, name)
		c.mu.Lock()
		c.proxied.Add(name, err)
		c.mu.Unlock()
	}
	return err
}

func (c *client) lookUp(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil //nolint:nilerr // the proxy knows more
	}
	for _, ip := range addresses {
		if err := c.checkAddress(ip); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) checkAddress(ip netip.Addr) error {
	if ip = ip.Unmap(); public(ip) || c.o.AllowLoopback && ip == loopback {
		return nil
	}
	return fmt.Errorf("%w: %s", errAddress, ip)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
