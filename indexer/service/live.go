package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/indexer"
)

// minTokenBytes is the least length of a token: 16 characters are not guessed over HTTP.
const minTokenBytes = 16

// liveLimits bound what clients of live search can take.
type liveLimits struct {
	read, write, idle time.Duration
	connections       int
}

// defaultLiveLimits leave room for an exact search over five million pairs.
var defaultLiveLimits = liveLimits{read: 10 * time.Second, write: time.Minute, idle: 30 * time.Second, connections: 256}

// validateLive refuses an address of live search that others can reach without a token.
func (s Settings) validateLive() error {
	if s.LiveAddr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.LiveAddr)
	switch {
	case err != nil:
		return fmt.Errorf("LIVE_ADDR is %q, want host:port: %w", s.LiveAddr, err)
	case s.LiveToken != "" && len(s.LiveToken) < minTokenBytes:
		return fmt.Errorf("LIVE_TOKEN has %d bytes, want at least %d", len(s.LiveToken), minTokenBytes)
	case s.LiveToken == "" && !isLoopback(host):
		return fmt.Errorf("LIVE_ADDR is %q, which others can reach: set LIVE_TOKEN, or bind live search to 127.0.0.1", s.LiveAddr)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serveLive keeps the live index in shape and answers searches until ctx ends.
func serveLive(ctx context.Context, all *errgroup.Group, s Settings, live *indexer.Live, limits liveLimits) (net.Addr, error) {
	listener, err := net.Listen("tcp", s.LiveAddr)
	if err != nil {
		return nil, fmt.Errorf("LIVE_ADDR is %q: %w", s.LiveAddr, err)
	}
	server := &http.Server{
		Handler:     withToken(string(s.LiveToken), indexer.NewHandler(live)),
		ReadTimeout: limits.read, WriteTimeout: limits.write, IdleTimeout: limits.idle, MaxHeaderBytes: 16 << 10,
	}
	all.Go(func() error { return live.Run(ctx) })
	all.Go(func() error {
		if err := server.Serve(netutil.LimitListener(listener, limits.connections)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving live search on %s: %w", s.LiveAddr, err)
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return listener.Addr(), nil
}

// withToken lets only requests through that carry the token; without one, all.
func withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintln(w, `{"error":"send the token: Authorization: Bearer LIVE_TOKEN"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}
