package ingest

import (
	"github.com/pairstream/pairstream/internal/invalid"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
)

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
