package broker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfakeLog passes on what kfake logs. storage has already said what kfake says of files that it could not write.
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
