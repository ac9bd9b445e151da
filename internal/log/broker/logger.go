package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfakeLog passes kfake's log on. It drops kfake's messages about failed writes, which storage has reported.
type kfakeLog struct{ logger *slog.Logger }

// Logf implements [kfake.Logger].
func (l kfakeLog) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	if level <= kfake.LogLevelWarn && !strings.HasPrefix(format, "persist ") {
		to = slog.LevelWarn
	}
	if ctx := context.Background(); l.logger.Enabled(ctx, to) {
		l.logger.Log(ctx, to, "the embedded broker says", keyReason, fmt.Sprintf(format, args...))
	}
}
