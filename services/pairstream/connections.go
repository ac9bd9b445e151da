package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/schemas"
)

// connectionsFlags say which connections to write, and where.
type connectionsFlags struct {
	above    float64
	out      string
	perShard int
}

func newConnectionsCommand() *cobra.Command {
	var f connectionsFlags
	cmd := &cobra.Command{
		Use: "connections --out DIR", Args: cobra.NoArgs,
		Long: "Reads the topic `scored` up to its present end. It writes every image and caption that Con-D calls a match and that are\n" +
			"not a pair of the same mini-batch, as key.jpg and key.json with the caption, the probability and the ids of both pairs.\n" +
			"It writes each connection once, with its first probability. BUCKET_ROOTS names the places of the images.",
	}
	looking(cmd, func(at logCommand) error {
		s, err := rundir.SettingsIn[rundir.Roots](at.dir)
		if err != nil {
			return err
		}
		sum, err := f.write(at.Context(), at.log, s.Roots)
		if err == nil {
			_, err = fmt.Fprintf(at.OutOrStdout(), "wrote %d connections above %g to %s; left out %d known pairs, %d with objects for captions, %d whose image is gone\n",
				sum.Written, f.above, f.out, sum.Known, sum.Replaced, sum.Lost)
		}
		return err
	})
	cmd.Flags().Float64Var(&f.above, "above", 0.8, "least probability of a match, not included")
	cmd.Flags().StringVar(&f.out, "out", "", "new folder for the tars")
	cmd.Flags().IntVar(&f.perShard, "per-shard", 10000, "connections in a tar")
	require(cmd, "out")
	return cmd
}

func (f connectionsFlags) write(ctx context.Context, log *stream.Log, roots []string) (sum dataset.ConnectionSummary, err error) {
	if f.above < 0 || f.above >= 1 {
		return sum, fmt.Errorf("--above is %g, want at least 0 and less than 1", f.above)
	}
	if there, err := os.ReadDir(f.out); len(there) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return sum, errors.Join(fmt.Errorf("--out is %s, want a folder that is empty or not there", f.out), err)
	}
	bucket, err := shard.OpenBucket(ctx, roots, nil)
	if err != nil {
		return sum, fmt.Errorf("BUCKET_ROOTS: %w", err)
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	out, err := shard.NewDirWriter(f.out, f.perShard)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, out.Abort()) }()
	c := dataset.NewConnections(bucket, out, f.above)
	for lane := range log.Config().Lanes {
		if err := addLane(ctx, log, lane, c); err != nil {
			return sum, err
		}
	}
	return c.Summary(), out.Close()
}

func addLane(ctx context.Context, log *stream.Log, lane int, c *dataset.Connections) error {
	for b, err := range stream.Values[*schemas.ScoredBatch](ctx, log, schemas.Scored, lane) {
		if err == nil {
			err = c.Add(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
