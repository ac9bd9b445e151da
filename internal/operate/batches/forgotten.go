package batches

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/schemas"
)

// readForgotten returns the tombstones of all namespaces in the log of KAFKA_BROKERS, or in that of the embedded broker
// in dir. It returns none if neither exists.
func readForgotten(ctx context.Context, environ map[string]string, dir string) (notes map[string][]byte, err error) {
	cfg, err := config.Parse[stream.Config](environ)
	if err != nil {
		return nil, err
	}
	embedded := broker.Options{}
	if len(cfg.Brokers) == 0 {
		data := filepath.Join(dir, "broker")
		if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if embedded.DataDir = data; rundir.Listens(ctx, rundir.DefaultBroker) {
			cfg.Brokers = []string{rundir.DefaultBroker}
		}
	}
	nothing := func(*stream.Log, context.Context, ...schemas.Topic) error { return nil }
	log, closeLog, err := rundir.Open(ctx, cfg, embedded, stream.Options{Logger: rundir.Logger(slog.LevelWarn)}, nothing)
	if err == nil {
		notes, err = everywhereForgotten(ctx, log)
		err = errors.Join(err, closeLog())
	}
	if err != nil {
		return nil, fmt.Errorf("reading the tombstones of images, which a plan leaves out, from KAFKA_BROKERS or --data: %w", err)
	}
	return notes, nil
}

func everywhereForgotten(ctx context.Context, log *stream.Log) (map[string][]byte, error) {
	others, err := log.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := log.TombstonesOf(ctx, others)
	if err != nil {
		return nil, err
	}
	own, err := log.Tombstones(ctx)
	maps.Copy(notes, own)
	return notes, err
}

// forgottenDigest returns the digest of a set of tombstones, "" for the empty set.
func forgottenDigest(notes map[string][]byte) string {
	if len(notes) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(notes)), "\n")))
	return hex.EncodeToString(sum[:])
}
