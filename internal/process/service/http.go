package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
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

	"github.com/pairstream/pairstream/internal/base/display"
)

// Readiness reports whether every stage of the process owns lanes and has its model loaded. It is safe for concurrent
// use.
type Readiness struct {
	mu     sync.Mutex
	stages []*Instruments
}

func (r *Readiness) add(s *Instruments) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stages = append(r.stages, s)
}

// Busy returns the busy time of the device for each stage of the process.
func (r *Readiness) Busy() map[string]time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy := make(map[string]time.Duration)
	for _, s := range r.stages {
		busy[s.name] = s.busy()
	}
	return busy
}

// missing lists the conditions that keep the process from being ready.
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

// states lists the lanes that are parked or waiting. The process is ready anyway, for its other lanes; a restart would
// not help.
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

// httpServer serves HTTP_ADDR and HEALTH_ADDR. Health has a separate listener, so that readers of metrics who take
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
			err := ServeOn(server, s.listeners[i], "HTTP")
			if err != nil {
				s.close()
			}
			return err
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

// ServeOn answers requests until the server is closed. Its errors name the service.
func ServeOn(server *http.Server, on net.Listener, what string) error {
	if err := server.Serve(on); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s on %s: %w", what, on.Addr(), err)
	}
	return nil
}

// IsLoopback reports whether a host is this machine, by a name or address that foreign DNS cannot give.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// AsksLoopback reports whether a request names this machine. Another host name that led here belongs to someone else: a
// page in a browser can reach loopback through its own DNS.
func AsksLoopback(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	return IsLoopback(strings.Trim(name, "[]"))
}

// minTokenBytes is the least length of a token: 16 characters cannot be guessed over HTTP.
const minTokenBytes = 16

// Door is an HTTP address for programs, closed to strangers.
type Door struct {
	Name                string // such as "live search"
	Addr                string
	Token               display.Secret
	AddrName, TokenName string // names of the settings
}

// Validate refuses an address that others can reach without a token.
func (d Door) Validate() error {
	host, _, err := net.SplitHostPort(d.Addr)
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q, want host:port: %w", d.AddrName, d.Addr, err)
	case d.Token != "" && len(d.Token) < minTokenBytes:
		return fmt.Errorf("%s has %d bytes, want at least %d", d.TokenName, len(d.Token), minTokenBytes)
	case d.Token == "" && !IsLoopback(host):
		return fmt.Errorf("%s is %q, which others can reach: set %s, or bind %s to 127.0.0.1", d.AddrName, d.Addr, d.TokenName, d.Name)
	}
	return nil
}

// Guard passes only requests that carry the token. Without a token only this machine can reach the address, and
// requests from foreign pages in a browser here are refused.
func (d Door) Guard(next http.Handler) http.Handler {
	if d.Token == "" {
		own := http.NewCrossOriginProtection().Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !AsksLoopback(r) {
				Refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("%s listens on this machine only, and was asked for under another name: use that of %s, or set %s", d.Name, d.AddrName, d.TokenName))
				return
			}
			own.ServeHTTP(w, r)
		})
	}
	want := sha256.Sum256([]byte(d.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			Refuse(w, http.StatusUnauthorized, "send the token: Authorization: Bearer "+d.TokenName)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Refuse answers with a reason, as JSON.
func Refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // the client may be gone
		Error string `json:"error"`
	}{why})
}
