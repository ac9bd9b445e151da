package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/service"
)

// liveLimits leave room for an exact search over five million pairs.
var liveLimits = service.HTTPLimits{Read: 10 * time.Second, Write: time.Minute, Idle: 30 * time.Second, Connections: 256}

// validateLive refuses an address of live search that others can reach without a token.
func (s Settings) validateLive() error {
	if s.LiveAddr == "" {
		return nil
	}
	return s.door().Validate()
}

func (s Settings) door() service.Door {
	return service.Door{Name: "live search", Addr: s.LiveAddr, Token: s.LiveToken, AddrName: "LIVE_ADDR", TokenName: "LIVE_TOKEN"}
}

// serveLive keeps the live index in shape and answers searches until ctx ends.
func serveLive(ctx context.Context, all *errgroup.Group, s Settings, live *indexer.Live, limits service.HTTPLimits) (net.Addr, error) {
	listener, err := service.ListenHTTP(s.LiveAddr, limits)
	if err != nil {
		return nil, fmt.Errorf("LIVE_ADDR is %q: %w", s.LiveAddr, err)
	}
	server := service.NewHTTPServer(s.door().Guard(indexer.NewHandler(live)), limits)
	all.Go(func() error { return live.Run(ctx) })
	answer(ctx, all, listener, server)
	return listener.Addr(), nil
}

// answer serves searches until ctx ends.
func answer(ctx context.Context, all *errgroup.Group, listener net.Listener, server *http.Server) {
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving searches on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}
