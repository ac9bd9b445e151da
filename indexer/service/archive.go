package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/process/service"
)

// lookAgain is the time between two looks for new segments.
const lookAgain = 10 * time.Second

// RunSearch answers searches over the segments in SEGMENTS_ROOT at LIVE_ADDR until ctx ends. It adds new segments, and
// drops those whose files are gone. It owns no lane. Searches do not find forgotten pairs. RunSearch calls serving with
// its address once it has added the segments that exist at the start.
func RunSearch(ctx context.Context, log *stream.Log, s Settings, logger *slog.Logger, serving func(net.Addr, *indexer.Archive)) (err error) {
	if s.LiveAddr == "" {
		return errors.New("LIVE_ADDR is empty: set it to the address that searches come to, such as 127.0.0.1:8080")
	}
	place, err := s.openStore(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	gone, err := forget.Open(ctx, log)
	if err != nil {
		return err
	}
	l := library{store: place, archive: indexer.NewArchive(cpu.Engine{}, gone.Pair), logger: logger, seen: make(map[string]*segment.Segment)}
	defer func() { err = errors.Join(err, l.archive.Close()) }()
	if err := l.look(ctx); err != nil {
		return err
	}
	all, ctx := interrupt.WithContext(ctx)
	listener, err := service.ListenHTTP(s.LiveAddr, liveLimits)
	if err != nil {
		return fmt.Errorf("LIVE_ADDR is %q: %w", s.LiveAddr, err)
	}
	answer(ctx, all, listener, service.NewHTTPServer(s.door().Guard(indexer.NewHandler(l.archive)), liveLimits))
	all.Go(func() error {
		gone.Run(ctx, func(err error) { logger.Warn("the forgotten pairs cannot be read", keyErr, err) })
		return nil
	})
	all.Go(func() error { return l.run(ctx) })
	serving(listener.Addr(), l.archive)
	return interrupt.Failure(all.Wait())
}

// library keeps an archive up to date.
type library struct {
	store   *store.Store
	archive *indexer.Archive
	logger  *slog.Logger
	seen    map[string]*segment.Segment // segments in the archive by file; nil: the file is no segment
}

func (l *library) run(ctx context.Context) error {
	for {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.look(ctx); err != nil && ctx.Err() == nil {
			l.logger.Warn("new segments cannot be looked for", keyErr, err)
		}
	}
}

// look takes up the segments that are new, and gives up those whose files are gone.
func (l *library) look(ctx context.Context) error {
	there := make(map[string]bool)
	known := func(file string) bool {
		there[file] = true
		_, known := l.seen[file]
		return known
	}
	err := l.store.Each(ctx, known, func(file string, one *segment.Segment, err error) {
		if err != nil {
			if errors.Is(err, segment.ErrInvalid) { // another fault may pass
				l.seen[file] = nil
			}
			l.logger.Warn("a segment cannot be read", keyErr, err)
			return
		}
		l.seen[file] = one
		l.archive.Add(one)
		l.logger.Info("took a segment up", keyGroup, one.Group.String(), keyPairs, one.Rows)
	})
	if err != nil {
		return err
	}
	for file, one := range l.seen {
		switch {
		case !there[file]:
			delete(l.seen, file)
			if one == nil {
				continue
			}
			l.logger.Info("gave a segment up, whose file is gone", keyGroup, one.Group.String(), keyPairs, one.Rows)
		case one != nil && one.Err() != nil:
			l.seen[file] = nil
			l.logger.Warn("gave a segment up: write its file again under another name, or start anew", keyGroup, one.Group.String(), keyPairs, one.Rows, keyErr, one.Err())
		default:
			continue
		}
		err = errors.Join(err, l.archive.Remove(one))
	}
	return err
}

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
func serveLive(ctx context.Context, all *interrupt.Group, s Settings, live *indexer.Live, limits service.HTTPLimits) (net.Addr, error) {
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
func answer(ctx context.Context, all *interrupt.Group, listener net.Listener, server *http.Server) {
	all.Go(func() error { return service.ServeOn(server, listener, "searches") })
	all.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}
