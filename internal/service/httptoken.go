package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/pairstream/pairstream/internal/stream"
)

// minTokenBytes is the least length of a token: 16 characters are not guessed over HTTP.
const minTokenBytes = 16

// Door is an HTTP address that programs use, and that strangers must not.
type Door struct {
	Name                string // such as "live search"
	Addr                string
	Token               stream.Secret
	AddrName, TokenName string // the settings
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

// Guard lets only requests through that carry the token. Without one only this machine can reach the address, and what a
// stranger's page sends through a browser here is refused.
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
