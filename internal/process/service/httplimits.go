package service

import (
	"net"
	"net/http"
	"time"
)

// HTTPLimits are what clients may take of a server.
type HTTPLimits struct {
	Read, Write, Idle time.Duration
	Connections       int // that have sent a whole head, at a time; others wait
}

// DefaultHTTPLimits leave room for profiles, which take 30 seconds unless they are asked for longer.
var DefaultHTTPLimits = HTTPLimits{Read: 10 * time.Second, Write: 2 * time.Minute, Idle: time.Minute, Connections: 128}

const (
	httpMaxHeaderBytes = 16 << 10
	httpMaxBodyBytes   = 1 << 20
)

// NewHTTPServer returns a server that gives no client more than its share of time and memory: slow and idle connections
// are closed, at once where others wait, and headers and bodies that are too large are refused.
func NewHTTPServer(handler http.Handler, limits HTTPLimits) *http.Server {
	return newServer(http.MaxBytesHandler(handler, httpMaxBodyBytes), limits)
}

func newServer(handler http.Handler, limits HTTPLimits) *http.Server {
	return &http.Server{
		Handler:           seated(handler),
		ConnContext:       withClient,
		ReadHeaderTimeout: limits.Read,
		ReadTimeout:       limits.Read,
		WriteTimeout:      limits.Write,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    httpMaxHeaderBytes,
	}
}

// NewUploadServer returns such a server for a handler that limits bodies itself, which may take long. Without limits a
// body has a minute.
func NewUploadServer(handler http.Handler, limits HTTPLimits) *http.Server {
	if limits == (HTTPLimits{}) {
		limits = DefaultHTTPLimits
		limits.Read = time.Minute
	}
	server := newServer(handler, limits)
	server.ReadHeaderTimeout = min(limits.Read, DefaultHTTPLimits.Read)
	return server
}

// ListenHTTP listens on an address. A bounded number of connections that have sent a whole head have a place at a time,
// and others wait. Without one they keep nobody out: the oldest of them goes first. It is for the servers of this
// package.
func ListenHTTP(addr string, limits HTTPLimits) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &places{Listener: listener, most: limits.Connections, taken: make(map[*Client]struct{})}, nil
}
