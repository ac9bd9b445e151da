package service

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// What a client may take of a process. Profiles take 30 seconds unless they are asked for longer.
const (
	httpReadTimeout    = 10 * time.Second
	httpWriteTimeout   = 2 * time.Minute
	httpIdleTimeout    = time.Minute
	httpMaxHeaderBytes = 16 << 10
	httpMaxBodyBytes   = 1 << 20
	httpMaxConnections = 128 // at a time, of each listener
)

// NewHTTPServer returns a server that gives no client more than its share of time and memory: slow and idle connections
// are closed, and headers and bodies that are too large are refused.
func NewHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           http.MaxBytesHandler(handler, httpMaxBodyBytes),
		ReadHeaderTimeout: httpReadTimeout,
		ReadTimeout:       httpReadTimeout,
		WriteTimeout:      httpWriteTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpMaxHeaderBytes,
	}
}

// ListenHTTP listens on an address and takes a bounded number of connections at a time; others wait.
func ListenHTTP(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(listener, httpMaxConnections), nil
}
