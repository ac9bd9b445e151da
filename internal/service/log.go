package service

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/internal/stream"
)

// OpenLog connects to the log and creates the topics that are missing.
func OpenLog(ctx context.Context, rt Runtime, cfg stream.Config) (*stream.Log, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("KAFKA_BROKERS is empty: a stage on its own needs a broker, such as that of `pairstream broker` on 127.0.0.1:9092")
	}
	log, err := stream.Connect(ctx, cfg, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
	if err != nil {
		return nil, err
	}
	if err := log.EnsureTopics(ctx); err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}
