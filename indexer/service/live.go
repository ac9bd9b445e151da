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

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/service"
)

// minTokenBytes is the least length of a token: 16 characters are not guessed over HTTP.
const minTokenBytes = 16

// liveLimits leave room for an exact search over five million pairs.
var liveLimits = service.HTTPLimits{Read: 10 * time.Second, Write: time.Minute, Idle: 30 * time.Second, Connections: 256}

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
	case s.LiveToken == "" && !service.IsLoopback(host):
		return fmt.Errorf("LIVE_ADDR is %q, which others can reach: set LIVE_TOKEN, or bind live search to 127.0.0.1", s.LiveAddr)
	}
	return nil
}

// serveLive keeps the live index in shape and answers searches until ctx ends.
func serveLive(ctx context.Context, all *errgroup.Group, s Settings, live *indexer.Live, limits service.HTTPLimits) (net.Addr, error) {
	listener, err := service.ListenHTTP(s.LiveAddr, limits)
	if err != nil {
		return nil, fmt.Errorf("LIVE_ADDR is %q: %w", s.LiveAddr, err)
	}
	server := service.NewHTTPServer(withToken(string(s.LiveToken), indexer.NewHandler(live)), limits)
	all.Go(func() error { return live.Run(ctx) })
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
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

// withToken lets only requests through that carry the token. Without one only this machine can reach the address, and what
// a stranger's page sends through a browser here is refused.
func withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		own := http.NewCrossOriginProtection().Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !service.AsksLoopback(r) {
				refuse(w, http.StatusMisdirectedRequest, "live search listens on this machine only, and was asked for under another name: use that of LIVE_ADDR, or set LIVE_TOKEN")
				return
			}
			own.ServeHTTP(w, r)
		})
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "send the token: Authorization: Bearer LIVE_TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, "{\"error\":%q}\n", why)
}
