package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/process/service"
)

//go:embed templates static
var files embed.FS

// Options are the console's sources.
type Options struct {
	Settings  Settings
	Log       *stream.Log
	Index     *index.Index
	Images    *shard.Images // nil: pages have no pictures
	GroupSize int           // pairs at which a group closes
	High, Low float64       // above High: a connection; below Low: a negative
	LiveToken display.Secret
	Logger    *slog.Logger
	// Busy returns the device's time at work for each stage. It is nil when the stages run elsewhere.
	Busy func() map[string]time.Duration
	// Limits bound clients; none: those of every server, and a minute for an upload.
	Limits service.HTTPLimits
	// Known is what a report says beside the log's records.
	Known Known
	// Embedder is nil where the console has no model.
	Embedder Embedder
}

// Server is the console.
type Server struct {
	o           Options
	pages       map[string]*template.Template
	thumbs      *thumbs
	records     *recordCache
	flow        *flow
	others      others
	comparisons comparisons
	uploads     *semaphore.Weighted
	handler     http.Handler

	publish  sync.Mutex // guards judges
	judges   *stream.Publisher
	listener net.Listener
}

// Listen binds the address, so that a port in use is an error at the start.
func Listen(s Settings) (net.Listener, error) {
	listener, err := service.ListenHTTP(s.Addr, service.DefaultHTTPLimits)
	if err != nil {
		return nil, fmt.Errorf("CONSOLE_ADDR is %q: %w (CONSOLE_ADDR=127.0.0.1:0 takes any free port, off none)", s.Addr, err)
	}
	return listener, nil
}

// New makes the console on a listener.
func New(o Options, listener net.Listener) (*Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.listener, s.flow = listener, newFlow(s)
	s.handler = s.guard(s.routes())
	return s, nil
}

func newServer(o Options) (*Server, error) {
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, pages: pages, thumbs: newThumbs(o.Images, o.Index.Forgotten), records: newRecordCache(o.Log, o.Index.Forgotten),
		others: others{kept: make(map[string]otherRun)}, uploads: semaphore.NewWeighted(uploadsAtOnce),
	}
	s.comparisons.kept, _ = simplelru.NewLRU[string, *comparison](keptComparisons, nil) // refuses only sizes below 1
	return s, nil
}

// Address returns the URL of a listener, for a browser.
func Address(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Run fills the index, follows the flow and serves pages until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	all, ctx := interrupt.WithContext(ctx)
	server := service.NewUploadServer(s.handler, s.o.Limits)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	all.Go(func() error { return service.ServeOn(server, s.listener, "the console") })
	all.Go(func() error { return s.o.Index.Run(ctx, s.o.Logger) })
	all.Go(func() error { return s.flow.run(ctx) })
	all.Go(func() error {
		<-ctx.Done()
		return errors.Join(server.Close(), s.closePublisher())
	})
	return interrupt.Failure(all.Wait())
}

// handler serves a page. Its error becomes an error page.
type handler func(http.ResponseWriter, *http.Request) error

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	fileServer := http.StripPrefix("/static/", http.FileServerFS(static))
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=300")
		fileServer.ServeHTTP(w, r)
	})
	for pattern, h := range map[string]handler{
		"GET /{$}": s.flowPage, "GET /events/flow": s.flowEvents,
		"GET /dead-letters": s.deadLettersPage, "GET /dead-letters/{number}": s.deadLetterPage,
		"GET /pairs/{id}": s.pairPage, "GET /pairs": s.findPair, "GET /thumbs/{id}": s.thumb, "GET /dead-letters/{number}/thumb": s.deadThumb,
		"GET /groups": s.groupsPage, "GET /groups/{lane}/{seq}": s.groupPage,
		"GET /groups/{lane}/{seq}/batches/{epoch}/{number}": s.batchPage,
		"GET /connections": s.connectionsStart, "GET /connections/{lane}/{seq}": s.connectionsPage, "POST /judgements": s.judge,
		"GET /training": s.trainingPage, "GET /training/curves": s.curves,
		"GET /search": s.searchPage, "POST /search": s.searchImage, "GET /replays": s.replaysPage, "GET /replays/{name}": s.replayPage,
		"GET /compare": s.comparePage, "GET /compare/curves": s.compareCurves,
		"GET /login": s.logInPage, "POST /login": s.logIn,
		"GET /healthz": func(w http.ResponseWriter, _ *http.Request) error { _, err := fmt.Fprintln(w, "alive"); return err },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				s.failed(w, r, err)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusNotFound, "There is no such page.")
	})
	return mux
}

func (s *Server) logInPage(w http.ResponseWriter, r *http.Request) error {
	return s.answer(w, r, "login.html", page{Title: "Token", Data: login{Next: "/"}})
}

// badRequest is an error in the user's request.
type badRequest struct{ error }

// failed answers with the page of an error.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	_, bad := errors.AsType[badRequest](err)
	switch {
	case bad:
		s.fail(w, r, http.StatusBadRequest, err.Error())
	case errors.Is(err, index.ErrNotFound):
		s.fail(w, r, http.StatusNotFound, "It is not here. The console has not read it yet, or newer pairs took its place in the index.")
	case errors.Is(err, stream.ErrGap):
		s.fail(w, r, http.StatusGone, "The log no longer has this record: retention has removed it.")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errUnanswered):
		s.fail(w, r, http.StatusServiceUnavailable, "Kafka does not answer in time. The console continues by itself when it does.")
	case r.Context().Err() != nil: // the browser no longer waits
	default:
		s.o.Logger.Error("a page of the console failed", keyPath, r.URL.Path, keyErr, err)
		s.fail(w, r, http.StatusInternalServerError, "This page failed: "+display.Redacted(err.Error()))
	}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.render(w, r, status, "error.html", page{Title: http.StatusText(status), Data: text})
}

// page is the data of every template.
type page struct {
	Title  string
	Path   string // of the menu's current entry
	Data   any
	Notice string // a fault of the data
	Login  bool
	Name   string // of the namespace
}

// answer renders a page without a fault.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string, p page) error {
	s.render(w, r, http.StatusOK, name, p)
	return nil
}

// render writes a page at once, so that an error in a template is an error page and not half a page.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Login = name == "login.html"
	p.Name = s.o.Log.Config().Namespace
	if p.Notice == "" && s.flow != nil && !p.Login {
		p.Notice = s.flow.notice()
	}
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "base", p); err != nil {
		s.o.Logger.Error("a template of the console failed", keyTemplate, name, keyPath, r.URL.Path, keyErr, err)
		http.Error(w, "This page failed; the console's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client is gone
}

// Keys of log lines.
const (
	keyErr      = "err"
	keyPair     = "pair"
	keyPath     = "path"
	keyTemplate = "template"
)
