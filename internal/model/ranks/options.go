package ranks

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// Options select the ranks and their addresses.
type Options struct {
	Rank, World int
	Address     string        // of rank 0, host:port
	Port        int           // where a rank above 0 listens for those above it; 0: any that is free
	Token       string        // a secret of this training
	Facts       []Fact        // must be equal on all ranks
	Silence     time.Duration // a rank that is silent for longer is lost
	Wait        time.Duration // for all ranks to come
	Transport   Transport     // of vectors; nil: the links
	Log         *slog.Logger
}

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	var l invalid.List
	l.Refuse(o.World < 2, "WORLD_SIZE is %d, want 2 or more", o.World)
	l.Refuse(o.Rank < 0 || o.Rank >= o.World, "RANK is %d, want 0 to %d (WORLD_SIZE - 1)", o.Rank, o.World-1)
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		l.Add(fmt.Errorf("MASTER_ADDR and MASTER_PORT make %q: %w", o.Address, err))
	}
	l.Refuse(o.Port < 0 || o.Port > 65535, "RANK_PORT is %d, want 0 to 65535", o.Port)
	l.Refuse(o.Silence <= 0, "RANK_TIMEOUT is %s, want more than 0", o.Silence)
	l.Refuse(o.Wait <= 0, "RANK_JOIN_TIMEOUT is %s, want more than 0", o.Wait)
	return l.Err()
}
