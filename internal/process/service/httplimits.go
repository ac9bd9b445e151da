package service

import (
	"net"
	"net/http"
	"time"
)

// HTTPLimits bound the clients of a server.
type HTTPLimits struct {
	Read, Write, Idle time.Duration
	Connections       int // with a whole head sent, at a time; others wait
}

// DefaultHTTPLimits leave time for profiles, which take 30 seconds by default.
var DefaultHTTPLimits = HTTPLimits{Read: 10 * time.Second, Write: 2 * time.Minute, Idle: time.Minute, Connections: 128}

const (
	httpMaxHeaderBytes = 16 << 10
	httpMaxBodyBytes   = 1 << 20
)

// NewHTTPServer returns a server that bounds each client's time and memory: it closes slow and idle connections, at
// once if others wait, and refuses headers and bodies that are too large.
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

// ListenHTTP listens on an address, for the servers of this package. A bounded number of connections with a whole head
// have a place, and others wait. Connections without a head keep none out: the oldest is closed first.
func ListenHTTP(addr string, limits HTTPLimits) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &places{Listener: listener, most: limits.Connections, taken: make(map[*Client]struct{})}, nil
}
