//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/pairstream/pairstream/internal/ingest"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
)

// startIngest serves the front door beside the stages, where it has an address. The stages do not need it, but whoever set
// INGEST_ADDR does: what keeps it from starting is an error.
func startIngest(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, s ingest.Settings) (stop func(), err error) {
	if s.Addr == "" {
		return func() {}, nil
	}
	listener, err := ingest.Listen(s)
	if err != nil {
		return nil, err
	}
	server, err := newIngest(log, rt, s, listener)
	if err != nil {
		_ = listener.Close() // nothing was served
		return nil, err
	}
	fmt.Fprintf(out, "ingest: %s\n", server.Address())
	return beside(ctx, rt.Log.With("stage", ingest.Name), "the front door", server.Run), nil
}
