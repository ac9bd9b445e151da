package console

import (
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/pairstream/pairstream/internal/invalid"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
)

// Settings say where the console listens, whom it lets in and what it keeps.
type Settings struct {
	Addr       string        `env:"CONSOLE_ADDR" envDefault:"127.0.0.1:8090" desc:"address of the console; other than loopback, it needs CONSOLE_TOKEN or CONSOLE_USER_HEADER; off: none"`
	Token      stream.Secret `env:"CONSOLE_TOKEN" desc:"token that the console asks for, in its form or as Authorization: Bearer; never printed; empty: none, on a loopback address only"`
	UserHeader string        `env:"CONSOLE_USER_HEADER" desc:"header in which a proxy that authenticates names the user, such as X-Forwarded-User; nobody may reach the console but through the proxy"`
	Dir        string        `env:"CONSOLE_DIR" envDefault:"data/console" desc:"folder of the console's index, which may be deleted at any time"`
	IndexPairs int64         `env:"CONSOLE_INDEX_PAIRS" envDefault:"10000000" desc:"pairs that the console's index holds, less than 400 bytes each; the oldest make room"`
	Namespaces []string      `env:"CONSOLE_NAMESPACES" desc:"further namespaces, comma separated, whose curves the page Training shows beside this one's, and which Replays compares"`
	Manifests  string        `env:"CONSOLE_MANIFESTS" desc:"folder of run manifests (*.json) that the page Replays lists; empty: none"`
	LiveURL    string        `env:"CONSOLE_LIVE_URL" desc:"address of live search, such as http://127.0.0.1:8080; LIVE_TOKEN goes with it; empty: the page Search finds captions by their words"`
}

// Off reports whether there is to be no console.
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
	l.Refuse(s.IndexPairs < 1000, "CONSOLE_INDEX_PAIRS is %d, want at least 1000", s.IndexPairs)
	if u, err := url.Parse(s.LiveURL); s.LiveURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		l.Add(fmt.Errorf("CONSOLE_LIVE_URL is %q, want http://host:port", s.LiveURL))
	}
	return l.Err()
}
