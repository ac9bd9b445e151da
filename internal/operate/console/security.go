package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/process/service"
)

const (
	maxForm   = 64 << 10 // bytes of a form
	maxUpload = 20 << 20 // bytes of an image to search for
	pageTime  = 15 * time.Second
)

// csp forbids everything that is not a file of the console's own: no inline script or style, no other host, no frame.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard wraps all pages.
func (s *Server) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusForbidden, "This request did not come from a page of the console, so nothing was done.")
	}))
	protected := crossOrigin.Handler(s.limited(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.expectedHost(r) {
			http.Error(w, "The console listens on this machine only, and was addressed by another name: open http://"+s.o.Settings.Addr, http.StatusMisdirectedRequest)
			return
		}
		if r.URL.Path != "/login" && !strings.HasPrefix(r.URL.Path, "/static/") && r.URL.Path != "/healthz" && !s.allowed(r) {
			s.askToken(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// expectedHost refuses names that a foreign DNS resolves to loopback.
func (s *Server) expectedHost(r *http.Request) bool {
	addr, _, err := net.SplitHostPort(s.o.Settings.Addr)
	if err != nil || !service.IsLoopback(addr) || s.o.Settings.UserHeader != "" || s.o.Settings.Token != "" {
		return true // a token or a proxy is required
	}
	return service.AsksLoopback(r)
}

// limited bounds the time and the body of a request.
func (s *Server) limited(next http.Handler) http.Handler {
	timed := http.TimeoutHandler(next, pageTime, "This page took too long. Is Kafka slow? Try again.")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxForm)
		if r.URL.Path == "/search" {
			most = maxUpload
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		if strings.HasPrefix(r.URL.Path, "/events/") { // they stay open, and have a bound of their own
			next.ServeHTTP(w, r)
			return
		}
		timed.ServeHTTP(w, r)
	})
}

const cookie = "pairstream_console"

// session returns the cookie's value. It proves that the browser once knew the token, and does not reveal it.
func (s *Server) session() string {
	mac := hmac.New(sha256.New, []byte(s.o.Settings.Token))
	mac.Write([]byte("pairstream console"))
	return hex.EncodeToString(mac.Sum(nil))
}

// allowed reports whether the request is authenticated.
func (s *Server) allowed(r *http.Request) bool {
	if s.o.Settings.UserHeader != "" && r.Header.Get(s.o.Settings.UserHeader) != "" {
		return true
	}
	if s.o.Settings.Token == "" {
		return s.o.Settings.UserHeader == ""
	}
	if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && same(given, string(s.o.Settings.Token)) {
		return true
	}
	c, err := r.Cookie(cookie)
	return err == nil && same(c.Value, s.session())
}

// same compares two texts in a time that does not depend on the place of their difference.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (s *Server) askToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	if s.o.Settings.Token == "" {
		http.Error(w, "Open the console through the proxy that sets "+s.o.Settings.UserHeader+" (CONSOLE_USER_HEADER).", http.StatusUnauthorized)
		return
	}
	s.render(w, r, http.StatusUnauthorized, "login.html", page{Title: "Token", Data: login{Next: r.URL.RequestURI()}})
}

type login struct {
	Next  string
	Wrong bool
}

// logIn takes the token of the form and sets the cookie.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) error {
	next := r.FormValue("next")
	if u, err := url.Parse(next); err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, "\\") {
		next = "/"
	}
	if s.o.Settings.Token == "" || !same(r.FormValue("token"), string(s.o.Settings.Token)) {
		s.render(w, r, http.StatusUnauthorized, "login.html", page{Title: "Token", Data: login{Next: next, Wrong: true}})
		return nil
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: s.session(), Path: "/", HttpOnly: true, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
		SameSite: http.SameSiteStrictMode, MaxAge: 7 * 24 * 3600,
	})
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

// Settings choose the console's address, its authentication and its files.
type Settings struct {
	Addr       string         `env:"CONSOLE_ADDR" envDefault:"127.0.0.1:8090" desc:"address of the console; other than loopback, it needs CONSOLE_TOKEN or CONSOLE_USER_HEADER; off: none"`
	Token      display.Secret `env:"CONSOLE_TOKEN" desc:"token that the console asks for, in its form or as Authorization: Bearer; never printed; empty: none, on a loopback address only"`
	UserHeader string         `env:"CONSOLE_USER_HEADER" desc:"header in which a proxy that authenticates names the user, such as X-Forwarded-User; all access to the console must go through the proxy"`
	Dir        string         `env:"CONSOLE_DIR" envDefault:"data/console" desc:"folder of the console's index, which may be deleted at any time"`
	IndexPairs int64          `envDefault:"10000000"` // pairs that the index holds, of less than 400 bytes each; the oldest make room
	Namespaces []string       `env:"CONSOLE_NAMESPACES" desc:"further namespaces, comma separated, whose curves the page Training shows beside this one's, and which Replays compares"`
	Manifests  string         `env:"CONSOLE_MANIFESTS" desc:"folder of run manifests (*.json) that the page Replays lists; empty: none"`
	LiveURL    string         `env:"CONSOLE_LIVE_URL" desc:"address of live search, such as http://127.0.0.1:8080; LIVE_TOKEN goes with it; empty: the page Search finds captions by their words"`
}

// Off reports whether the console is switched off.
func (s Settings) Off() bool { return s.Addr == "off" }

// Validate returns every invalid setting, joined.
func (s Settings) Validate() error {
	if s.Off() {
		return nil
	}
	var l invalid.List
	host, _, err := net.SplitHostPort(s.Addr)
	switch {
	case err != nil:
		l.Add(fmt.Errorf("CONSOLE_ADDR is %q, want host:port, such as 127.0.0.1:8090, or off", s.Addr))
	case !service.IsLoopback(host) && s.Token == "" && s.UserHeader == "":
		l.Add(fmt.Errorf("CONSOLE_ADDR is %q, which others can reach: set CONSOLE_TOKEN, or CONSOLE_USER_HEADER behind a proxy that authenticates, or bind the console to 127.0.0.1", s.Addr))
	}
	l.Refuse(s.Token != "" && len(s.Token) < 8, "CONSOLE_TOKEN has %d characters, want at least 8", len(s.Token))
	l.Refuse(s.UserHeader != "" && http.CanonicalHeaderKey(s.UserHeader) == "", "CONSOLE_USER_HEADER is no name of a header")
	l.Refuse(s.Dir == "", "CONSOLE_DIR is empty, want a folder that may be written")
	if u, err := url.Parse(s.LiveURL); s.LiveURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		l.Add(fmt.Errorf("CONSOLE_LIVE_URL is %q, want http://host:port", s.LiveURL))
	}
	return l.Err()
}
