package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

// ingestSettings are those of a front door that runs by itself.
type ingestSettings struct {
	Process service.Process
	Stream  stream.Config
	Ingest  ingest.Settings
}

func newIngestCommand() *cobra.Command {
	var maxLag int64
	cmd := &cobra.Command{
		Use: "ingest",
		Long: "Takes pairs at INGEST_ADDR and publishes them: JSON with the image in base64 or its URL, a form with its bytes, or NDJSON\n" +
			"for many. The answer has the ids of the pairs that are on the log, and a reason for each that was refused. It answers 429\n" +
			"when the encoder is behind. GET /openapi.yaml describes all of it. `pairstream up` has it inside where INGEST_ADDR is set.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&maxLag, "max-lag", 0, "pairs that the encoder has not processed, from which on it answers 429; 0: no bound. The default is INGEST_MAX_LAG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		environ := config.Environ()
		if environ["INGEST_ADDR"] == "" {
			environ["INGEST_ADDR"] = ingest.DefaultAddr
		}
		if cmd.Flags().Changed("max-lag") {
			environ["INGEST_MAX_LAG"] = strconv.FormatInt(maxLag, 10)
		}
		s, err := config.Parse[ingestSettings](environ)
		if err != nil {
			return err
		}
		if len(s.Stream.Brokers) == 0 {
			s.Stream.Brokers = []string{rundir.DefaultBroker}
		}
		listener, err := ingest.Listen(s.Ingest)
		if err != nil {
			return err
		}
		defer listener.Close() // the server has closed it, unless it never began
		rt := service.NewRuntime(s.Process.NewLogger(os.Stderr).With(keyStage, ingest.Name))
		ctx := cmd.Context()
		err = service.Serve(ctx, s.Process, rt, func(ctx context.Context) error {
			log, err := stream.Connect(ctx, s.Stream, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
			if err != nil {
				return err
			}
			defer log.Close()
			if err := log.EnsureTopics(ctx, producerTopics...); err != nil {
				return err
			}
			server, err := ingest.OnLog(log, rt, s.Ingest, listener)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ingest: %s\n", server.Address())
			return server.Run(ctx)
		})
		if ctx.Err() != nil {
			return interrupt.Failure(err) // it ends by being interrupted
		}
		return err
	}
	return cmd
}
