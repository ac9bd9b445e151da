package service

import (
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

// HTTPLimits are what clients may take of a server.
type HTTPLimits struct {
	Read, Write, Idle time.Duration
	Connections       int // at a time; others wait
}

// DefaultHTTPLimits leave room for profiles, which take 30 seconds unless they are asked for longer.
var DefaultHTTPLimits = HTTPLimits{Read: 10 * time.Second, Write: 2 * time.Minute, Idle: time.Minute, Connections: 128}

const (
	httpMaxHeaderBytes = 16 << 10
	httpMaxBodyBytes   = 1 << 20
)

// NewHTTPServer returns a server that gives no client more than its share of time and memory: slow and idle connections
// are closed, and headers and bodies that are too large are refused.
func NewHTTPServer(handler http.Handler, limits HTTPLimits) *http.Server {
	return &http.Server{
		Handler:           http.MaxBytesHandler(handler, httpMaxBodyBytes),
		ReadHeaderTimeout: limits.Read,
		ReadTimeout:       limits.Read,
		WriteTimeout:      limits.Write,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    httpMaxHeaderBytes,
	}
}

// NewUploadServer returns such a server for a handler that limits bodies itself, which may take long. Without limits a body has
// a minute.
func NewUploadServer(handler http.Handler, limits HTTPLimits) *http.Server {
	if limits == (HTTPLimits{}) {
		limits = DefaultHTTPLimits
		limits.Read = time.Minute
	}
	server := NewHTTPServer(nil, limits)
	server.Handler = handler
	server.ReadHeaderTimeout = min(limits.Read, DefaultHTTPLimits.Read)
	return server
}

// ListenHTTP listens on an address and takes a bounded number of connections at a time; others wait.
func ListenHTTP(addr string, limits HTTPLimits) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(listener, limits.Connections), nil
}

// IsLoopback reports whether a host is this machine by a name or address that nobody else's DNS can give.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// AsksLoopback reports whether a request names this machine. Another name that led here is somebody else's: a page in a
// browser can reach loopback by way of its own DNS.
func AsksLoopback(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	return IsLoopback(strings.Trim(name, "[]"))
}
