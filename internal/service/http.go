package service

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Readiness says whether every stage of the process owns lanes and has its model loaded. It is safe for concurrent use.
type Readiness struct {
	mu     sync.Mutex
	stages []*Stage
}

func (r *Readiness) add(s *Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stages = append(r.stages, s)
}

// missing is what the process waits for before it is ready.
func (r *Readiness) missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stages) == 0 {
		return []string{"no stage has begun"}
	}
	var missing []string
	for _, s := range r.stages {
		if m := s.missing(); m != "" {
			missing = append(missing, m)
		}
	}
	return missing
}

type httpServer struct {
	listener net.Listener
	server   *http.Server
}

// newHTTPServer listens at once, so that a port in use is an error at the start.
func newHTTPServer(process Process, rt Runtime) (*httpServer, error) {
	listener, err := net.Listen("tcp", process.HTTPAddr)
	if err != nil {
		return nil, fmt.Errorf("HTTP_ADDR is %q: %w", process.HTTPAddr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(rt.Registry, promhttp.HandlerOpts{Registry: rt.Registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if missing := rt.Ready.missing(); len(missing) > 0 {
			answer(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(missing, ", "))
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	if process.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return &httpServer{listener, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}, nil
}

func answer(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

func (s *httpServer) serve() error {
	if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP on %s: %w", s.listener.Addr(), err)
	}
	return nil
}

func (s *httpServer) close() { s.server.Close() }
