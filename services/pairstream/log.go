package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/schemas"
)

func newBrokerCommand() *cobra.Command {
	o := broker.Options{Logger: rundir.Logger(slog.LevelInfo)}
	cmd := &cobra.Command{
		Use:  "broker",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := broker.Start(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "broker listens on %s, data in %s; connect with KAFKA_BROKERS=%s\n", b.Addr(), o.DataDir, b.Addr())
			err = b.Wait(cmd.Context())
			if closing := b.Close(); err == nil {
				err = closing
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", rundir.DefaultBroker, "address to listen on, on loopback")
	cmd.Flags().StringVar(&o.DataDir, "data", "data/broker", "folder of the log")
	cmd.Flags().BoolVar(&o.SetAsideDamage, "set-aside-damage", false, "move damaged parts of the log to files beside it, and continue without their records")
	return cmd
}

func newTopicsCommand() *cobra.Command {
	topics := &cobra.Command{Use: "topics"}
	do := func(use, short string, act func(*stream.Log, context.Context, ...schemas.Topic) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := rundir.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer log.Close()
			if err := act(log, cmd.Context()); err != nil {
				return err
			}
			return printTopics(cmd, log)
		}}
	}
	alone := false
	create := do("create", "create what is missing; refuse a wrong partition count", func(log *stream.Log, ctx context.Context, _ ...schemas.Topic) error {
		if alone {
			return log.EnsureTopicsWithoutTombstones(ctx)
		}
		return log.EnsureTopics(ctx)
	})
	create.Flags().BoolVar(&alone, "without-tombstones", false, "let a new namespace train on images that are forgotten in others")
	topics.AddCommand(create,
		do("check", "report what is missing or has a wrong partition count", (*stream.Log).CheckTopics))
	return topics
}

func printTopics(cmd *cobra.Command, log *stream.Log) error {
	cfg := log.Config()
	for _, info := range schemas.Catalogue() {
		partitions := 1
		if info.Lane {
			partitions = cfg.Lanes
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%-32s %5d partitions  written by %s\n", info.Topic.Name(cfg.Namespace), partitions, info.WrittenBy)
	}
	return nil
}

func newSealCommand() *cobra.Command {
	var lane int
	var final bool
	cmd := &cobra.Command{
		Use:  "seal",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := rundir.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer log.Close()
			lanes := log.Config().Lanes
			if lane >= lanes {
				return fmt.Errorf("--lane is %d, want less than LANES=%d", lane, lanes)
			}
			publisher := log.NewPublisher(stream.PublisherOptions{})
			err = seal(cmd.Context(), log, publisher, lane, final)
			return errors.Join(err, producer.ClosePublisher(publisher))
		},
	}
	cmd.Flags().IntVar(&lane, "lane", -1, "lane to seal; -1: all")
	cmd.Flags().BoolVar(&final, "final", false, "the crawl ends here: no record follows in the lane")
	return cmd
}

// seal writes a seal to one lane, or to all when lane is negative. It passes over lanes that have ended, and refuses
// when all of them have.
func seal(ctx context.Context, log *stream.Log, publisher *stream.Publisher, lane int, final bool) error {
	ended, err := onlog.New(log, publisher).Ended(ctx)
	if err != nil {
		return err
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	open := 0
	for i := range log.Config().Lanes {
		if lane >= 0 && i != lane || ended[i] != nil {
			continue
		}
		open++
		if err := publisher.Publish(ctx, schemas.Pairs, i, &schemas.Seal{Final: final, ID: hex.EncodeToString(id[:])}); err != nil {
			return fmt.Errorf("sealing lane %d: %w", i, err)
		}
	}
	if open == 0 {
		return errors.New("sealing: every lane to seal has ended with a final seal already, and takes nothing more")
	}
	return publisher.Flush(ctx)
}
