package ingest

import (
	"context"
	"net"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
)

// OnLog returns the door of a log whose topics exist. It refuses pairs while the encoder lags behind.
func OnLog(log *stream.Log, rt service.Runtime, s Settings, listener net.Listener) (*Server, error) {
	instruments, err := rt.NewInstruments(Name, nil)
	if err != nil {
		return nil, err
	}
	return New(Options{
		Settings: s, Log: log, Instruments: instruments,
		Lag: func(ctx context.Context) (int64, error) { return onlog.EncoderLag(ctx, log) },
	}, listener)
}
