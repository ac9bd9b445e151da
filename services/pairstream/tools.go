package main

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/process/config"
)

func newVocabCommand() *cobra.Command {
	var size, minCount int
	var out string
	cmd := &cobra.Command{
		Use:  "vocab " + tarsUse,
		Args: wantArgs(1, anyNumber),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var failed error
			var totals shard.Totals
			vocab := token.BuildVocab(captions(cmd.Context(), places(paths), &totals, &failed), size, minCount)
			if failed != nil {
				return failed
			}
			producer.PrintPassedOver(cmd.ErrOrStderr(), totals)
			if err := os.WriteFile(out, []byte(strings.Join(vocab, "\n")+"\n"), 0o644); err != nil {
				return fmt.Errorf("writing the vocabulary: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %d tokens to %s\n", len(vocab), out)
			return nil
		},
	}
	cmd.Flags().IntVar(&size, "size", 30522, "most tokens")
	cmd.Flags().IntVar(&minCount, "min-count", 2, "least occurrences of a word")
	cmd.Flags().StringVar(&out, "out", "vocab.txt", "file to write, a token a line")
	return cmd
}

// captions yields every caption of the tars. It leaves its counts in totals and its failure in failed.
func captions(ctx context.Context, paths []string, totals *shard.Totals, failed *error) iter.Seq[string] {
	return func(yield func(string) bool) {
		*totals, *failed = shard.Scan(ctx, paths, shard.Visitor{
			Example: func(ex shard.Example) error {
				for _, text := range ex.Captions {
					yield(text)
				}
				return nil
			},
			Problem: func(shard.Problem) error { return nil },
		})
	}
}

func newHealthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "healthcheck [/healthz|/readyz]",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/healthz"
			if len(args) == 1 {
				path = args[0]
			}
			name := "HEALTH_ADDR"
			environ := config.Environ()
			if environ[name] == "" {
				name = "HTTP_ADDR"
			}
			return healthcheck(cmd.Context(), name, environ[name], path)
		},
	}
}

func healthcheck(ctx context.Context, setting, addr, path string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s is %q, want host:port or :port", setting, addr)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", addr, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", addr, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	return nil
}

func newSynthCommand() *cobra.Command {
	o := scenes.Defaults()
	cmd := &cobra.Command{
		Use:  "synth DIR",
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			if err := scenes.WriteDir(cmd.Context(), args[0], o, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %d scenes with %d captions each to %s\n", o.Scenes, o.Captions, args[0])
			return nil
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
