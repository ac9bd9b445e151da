package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the front door's name in metrics.
const Name = "ingest"

// Options configure the front door.
type Options struct {
	Settings    Settings
	Log         *stream.Log // whose topics exist
	Lag         func(context.Context) (int64, error)
	Instruments *service.Instruments
	// Limits bound clients; none: those of every server, and a minute for a body.
	Limits service.HTTPLimits
	// AckTime bounds a request's wait for the log; 0: 30 s.
	AckTime time.Duration
	// DownloadTime bounds a request's wait for its downloads; 0: 30 s.
	DownloadTime time.Duration
	// Loopback lets URLs lead to this machine, for tests.
	Loopback bool
}

// Server is the front door.
type Server struct {
	o        Options
	log      *slog.Logger
	listener net.Listener
	gate     gate
	budget   *budget
	urls     *fetch.Getter // nil: no downloads
	known    *known
	metrics  metrics

	mu        sync.Mutex
	publisher *stream.Publisher
}

type metrics struct {
	requests *prometheus.CounterVec
	pairs    *prometheus.CounterVec
}

// Listen opens the address, so that a port in use is an error at the start.
func Listen(s Settings) (net.Listener, error) {
	listener, err := service.ListenHTTP(s.Addr, service.DefaultHTTPLimits)
	if err != nil {
		return nil, fmt.Errorf("INGEST_ADDR is %q: %w", s.Addr, err)
	}
	return listener, nil
}

// New makes the front door on a listener.
func New(o Options, listener net.Listener) (*Server, error) {
	if o.AckTime == 0 {
		o.AckTime = ackTime
	}
	if o.DownloadTime == 0 {
		o.DownloadTime = defaultDownloadTime
	}
	known, err := newKnown(mostKnown)
	if err != nil {
		return nil, err
	}
	ledger := onlog.New(o.Log, nil)
	s := &Server{
		o: o, log: o.Instruments.Log, listener: listener, budget: newBudget(mostBytes), known: known,
		gate: gate{maxLag: o.Settings.MaxLag, lag: o.Lag, ended: ledger.Ended, era: ledger.Era, now: time.Now, patience: min(lookTime, o.AckTime)},
		metrics: metrics{
			requests: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "pairstream_ingest_requests_total", Help: "Requests to the HTTP front door, by the status of the answer.",
			}, []string{"code"}),
			pairs: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "pairstream_ingest_pairs_total", Help: "Pairs that came to the HTTP front door: published, repeated (on the log already), or refused.",
			}, []string{"outcome"}),
		},
	}
	if o.Settings.URLs {
		s.urls, err = fetch.NewGetter(fetch.Options{
			Threads: mostDownloads, Timeout: 20 * time.Second, MaxBytes: 16 << 20, Redirects: 5, PerHost: 4, HostRate: 10,
			UserAgent: "pairstream/1", AllowLoopback: o.Loopback,
		})
		if err != nil {
			return nil, err
		}
	}
	return s, o.Instruments.Register(s.metrics.requests, s.metrics.pairs)
}

// Address returns the URL for pairs.
func (s *Server) Address() string { return "http://" + s.listener.Addr().String() }

// Run answers requests until ctx ends. Then it finishes the running requests.
func (s *Server) Run(ctx context.Context) error {
	server := service.NewUploadServer(s.o.Settings.door().Guard(s.routes()), s.o.Limits)
	s.mu.Lock()
	s.publisher = s.newPublisher()
	s.mu.Unlock()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return service.ServeOn(server, s.listener, "the front door") })
	all.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(closeTime, s.o.AckTime))
		defer cancel()
		err := server.Shutdown(last)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.Join(err, s.publisher.Close(last))
	})
	s.o.Instruments.Counters().Lanes.Store(int64(s.o.Log.Config().Lanes))
	s.o.Instruments.Loaded()
	err := all.Wait()
	s.gate.wait()
	if s.urls != nil {
		s.urls.Close()
	}
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/pairs", s.post)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(schemas.OpenAPI()) // the client may be gone
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	return mux
}

// Settings configure the front door's address and its limits.
type Settings struct {
	Addr   string         `env:"INGEST_ADDR" desc:"address of the HTTP front door, such as 127.0.0.1:8091; other than loopback, it needs INGEST_TOKEN; empty: none beside other stages, and 127.0.0.1:8091 for pairstream ingest"`
	Token  display.Secret `env:"INGEST_TOKEN" desc:"token that the front door asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`
	MaxLag int64          `env:"INGEST_MAX_LAG" envDefault:"100000" desc:"pairs that the encoder has not processed, from which on the front door answers 429; 0: no bound"`
	URLs   bool           `env:"INGEST_URLS" envDefault:"true" desc:"download the images of pairs that come with a URL, from the public internet alone; false: refuse them"`
}

// DefaultAddr is the door's address unless the settings have one.
const DefaultAddr = "127.0.0.1:8091"

// Validate returns all invalid settings, joined.
func (s Settings) Validate() error {
	var l invalid.List
	if s.Addr != "" {
		l.Add(s.door().Validate())
	}
	l.Refuse(s.MaxLag < 0, "INGEST_MAX_LAG is %d, want 0 or more", s.MaxLag)
	return l.Err()
}

func (s Settings) door() service.Door {
	return service.Door{Name: "the front door", Addr: s.Addr, Token: s.Token, AddrName: "INGEST_ADDR", TokenName: "INGEST_TOKEN"}
}
