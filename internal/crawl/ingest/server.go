package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// Name is what the front door is called in metrics.
const Name = "ingest"

// Options say what the front door works on.
type Options struct {
	Settings    Settings
	Log         *stream.Log // whose topics exist
	Lag         func(context.Context) (int64, error)
	Instruments *service.Instruments
	// Limits are what clients may take; none: those of every server, and a minute for a body.
	Limits service.HTTPLimits
	// AckTime is the longest that a request waits for the log; 0: 30 s.
	AckTime time.Duration
	// Loopback lets URLs lead to this machine, for tests.
	Loopback bool
}

// The bounds of all requests together.
const (
	mostBytes     = 512 << 20
	mostDownloads = 16
	mostKnown     = 1 << 16
	ackTime       = 30 * time.Second
	closeTime     = 10 * time.Second
	retryAfter    = "5" // seconds
)

// Server is the front door.
type Server struct {
	o         Options
	log       *slog.Logger
	listener  net.Listener
	gate      gate
	budget    *budget
	urls      *fetch.Getter // nil: none are downloaded
	downloads *semaphore.Weighted
	metrics   metrics

	mu        sync.Mutex
	publisher *stream.Publisher
	known     *simplelru.LRU[schemas.PairID, struct{}] // acknowledged lately
}

type metrics struct {
	requests *prometheus.CounterVec
	pairs    *prometheus.CounterVec
}

// Listen takes the address, so that a port in use is an error at the start.
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
	known, err := newKnown()
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, log: o.Instruments.Log, listener: listener, budget: newBudget(mostBytes), known: known, downloads: semaphore.NewWeighted(mostDownloads),
		gate: gate{maxLag: o.Settings.MaxLag, lag: o.Lag, ended: onlog.New(o.Log, nil).Ended, now: time.Now},
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

// Address returns where to send pairs.
func (s *Server) Address() string { return "http://" + s.listener.Addr().String() }

// Run answers requests until ctx ends. Requests that are under way then are finished.
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

// post answers POST /v1/pairs.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	status, err := http.StatusOK, s.gate.admit(r.Context())
	answer := answer{}
	if err == nil {
		end := s.o.Instruments.Batch()
		answer, err = s.take(w, r)
		end()
	}
	switch {
	case err != nil:
		status = s.fail(w, r, err)
	case len(answer.Errors) > 0:
		status = http.StatusBadRequest
		fallthrough
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone, and what it has sent is on the log
	}
	s.metrics.requests.WithLabelValues(fmt.Sprint(status)).Inc()
}

// What is wrong with a request as a whole.
var (
	errForm = errors.New("no form that can be read")
	errType = errors.New("want Content-Type: application/json, multipart/form-data or application/x-ndjson")
)

// take reads the pairs of a request, publishes them and waits until they are on the log.
func (s *Server) take(w http.ResponseWriter, r *http.Request) (answer, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return answer{}, errType
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return answer{}, fmt.Errorf("%w; Content-Encoding is %.40q, want a body that is not compressed", errType, encoding)
	}
	body := http.MaxBytesReader(w, r.Body, mostBody)
	p := &purse{of: s.budget}
	defer p.give()
	in := s.newRequest()
	ctx := r.Context()
	switch kind {
	case "application/json":
		err = in.object(ctx, body, p)
	case "application/x-ndjson", "application/jsonl", "application/ndjson":
		err = in.lines(ctx, body, p)
	case "multipart/form-data":
		err = in.form(ctx, multipart.NewReader(body, params["boundary"]), p)
	default:
		err = errType
	}
	if err := errors.Join(err, in.finish()); err != nil {
		return answer{}, err
	}
	published := len(in.answer.Pairs) - in.repeated
	if published > 0 {
		if err := in.flush(ctx); err != nil {
			return answer{}, err
		}
	}
	s.acknowledged(in.answer.Pairs)
	s.gate.took(published)
	for outcome, n := range map[string]int{"published": published, "repeated": in.repeated, "refused": len(in.answer.Errors)} {
		s.metrics.pairs.WithLabelValues(outcome).Add(float64(n))
	}
	s.o.Instruments.PairsIn(in.pairs)
	s.o.Instruments.PairsOut(published)
	return in.answer, nil
}

// fail answers a request that was not taken as a whole. Some of its pairs may be on the log, and may be sent again.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) (status int) {
	var lag lagError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &lag):
		status = http.StatusTooManyRequests
	case errors.Is(err, errEnded):
		status = http.StatusConflict
	case errors.Is(err, errType):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errLong), errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy):
		status = http.StatusServiceUnavailable
	case errors.As(err, new(logError)):
		status = http.StatusServiceUnavailable
		s.log.Warn("the log takes no pairs", "err", err)
	default: // the body ends early, or is none
		status = http.StatusBadRequest
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	service.Refuse(w, status, err.Error())
	return status
}

// Settings say where the front door is and what it lets in.
type Settings struct {
	Addr   string        `env:"INGEST_ADDR" desc:"address of the HTTP front door, such as 127.0.0.1:8091; other than loopback, it needs INGEST_TOKEN; empty: none beside other stages, and 127.0.0.1:8091 for pairstream ingest"`
	Token  stream.Secret `env:"INGEST_TOKEN" desc:"token that the front door asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`
	MaxLag int64         `env:"INGEST_MAX_LAG" envDefault:"100000" desc:"pairs that the encoder has not processed, from which on the front door answers 429; 0: no bound"`
	URLs   bool          `env:"INGEST_URLS" envDefault:"true" desc:"download the images of pairs that come with a URL, from the public internet alone; false: refuse them"`
}

// DefaultAddr is the address of a door that has none in its settings.
const DefaultAddr = "127.0.0.1:8091"

// Validate returns every invalid setting, joined.
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
