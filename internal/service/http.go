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
	"golang.org/x/sync/errgroup"
)

// Readiness knows whether every stage of the process owns lanes and has its model loaded. It is safe for concurrent use.
type Readiness struct {
	mu     sync.Mutex
	stages []*Instruments
}

func (r *Readiness) add(s *Instruments) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stages = append(r.stages, s)
}

// Busy returns for how long the device has worked for each stage of the process.
func (r *Readiness) Busy() map[string]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy := make(map[string]time.Duration)
	for _, s := range r.stages {
		busy[s.name] = s.busy()
	}
	return busy
}

// missing lists what the process waits for before it is ready.
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

// states are what lanes have to say: that they are parked, or what they wait for. The process is ready all the same, for
// its other lanes; a restart would not help.
func (r *Readiness) states() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var states []string
	for _, s := range r.stages {
		for _, state := range s.counters.States() {
			states = append(states, s.name+": "+state)
		}
		if says := s.says.Load(); says != nil {
			if text := (*says)(); text != "" {
				states = append(states, s.name+": "+text)
			}
		}
	}
	return states
}

// httpServer answers at HTTP_ADDR and HEALTH_ADDR. Health has a listener of its own, so that readers of metrics who take
// every connection do not make the process look dead.
type httpServer struct {
	limits    HTTPLimits
	listeners []net.Listener
	servers   []*http.Server
}

// newHTTPServer listens at once, so that a port in use is an error at the start.
func newHTTPServer(process Process, rt Runtime, limits HTTPLimits) (*httpServer, error) {
	s := &httpServer{limits: limits}
	health, all := http.NewServeMux(), http.NewServeMux()
	for _, mux := range []*http.ServeMux{health, all} {
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") })
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
			if missing := rt.Ready.missing(); len(missing) > 0 {
				answer(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(missing, ", "))
				return
			}
			answer(w, http.StatusOK, strings.Join(append([]string{"ready"}, rt.Ready.states()...), "\n"))
		})
	}
	all.Handle("GET /metrics", promhttp.HandlerFor(rt.Registry, promhttp.HandlerOpts{Registry: rt.Registry}))
	if process.Pprof {
		all.HandleFunc("/debug/pprof/", pprof.Index)
		all.HandleFunc("/debug/pprof/profile", pprof.Profile)
		all.HandleFunc("/debug/pprof/trace", pprof.Trace)
		all.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	if err := errors.Join(s.listen("HTTP_ADDR", process.HTTPAddr, all), s.listen("HEALTH_ADDR", process.HealthAddr, health)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// listen adds an address, unless it is empty.
func (s *httpServer) listen(setting, addr string, handler http.Handler) error {
	if addr == "" {
		return nil
	}
	listener, err := ListenHTTP(addr, s.limits)
	if err != nil {
		return fmt.Errorf("%s is %q: %w", setting, addr, err)
	}
	s.listeners = append(s.listeners, listener)
	s.servers = append(s.servers, NewHTTPServer(handler, s.limits))
	return nil
}

func answer(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

func (s *httpServer) serve() error {
	var all errgroup.Group
	for i, server := range s.servers {
		all.Go(func() error {
			if err := server.Serve(s.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				s.close()
				return fmt.Errorf("serving HTTP on %s: %w", s.listeners[i].Addr(), err)
			}
			return nil
		})
	}
	return all.Wait()
}

func (s *httpServer) close() {
	for i, server := range s.servers {
		server.Close()
		s.listeners[i].Close()
	}
}
