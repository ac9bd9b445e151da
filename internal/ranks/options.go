package ranks

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options say who takes part, and where.
type Options struct {
	Rank, World int
	Address     string        // of rank 0, host:port
	Port        int           // where a rank above 0 listens for those above it; 0: any that is free
	Token       string        // a secret of this training
	Facts       []Fact        // must be equal on all ranks
	Silence     time.Duration // after which a rank of which nothing is heard is lost
	Wait        time.Duration // for all ranks to come
	Transport   Transport     // of vectors; nil: the links
	Log         *slog.Logger
}

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	var problems []error
	if o.World < 2 {
		problems = append(problems, fmt.Errorf("WORLD_SIZE is %d, want 2 or more", o.World))
	}
	if o.Rank < 0 || o.Rank >= o.World {
		problems = append(problems, fmt.Errorf("RANK is %d, want 0 to %d (WORLD_SIZE - 1)", o.Rank, o.World-1))
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		problems = append(problems, fmt.Errorf("MASTER_ADDR and MASTER_PORT make %q: %w", o.Address, err))
	}
	if o.Port < 0 || o.Port > 65535 {
		problems = append(problems, fmt.Errorf("RANK_PORT is %d, want 0 to 65535", o.Port))
	}
	if o.Silence <= 0 {
		problems = append(problems, fmt.Errorf("RANK_TIMEOUT is %s, want more than 0", o.Silence))
	}
	if o.Wait <= 0 {
		problems = append(problems, fmt.Errorf("RANK_JOIN_TIMEOUT is %s, want more than 0", o.Wait))
	}
	return errors.Join(problems...)
}
