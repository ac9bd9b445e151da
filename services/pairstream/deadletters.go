package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
)

func newDeadLettersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letters"}
	cmd.AddCommand(newDeadLettersListCommand(), newDeadLettersShowCommand(), newDeadLettersReplayCommand())
	return cmd
}

func filterFlags(cmd *cobra.Command, f *inspect.Filter) {
	cmd.Flags().StringVar(&f.Stage, "stage", "", "only those that this stage has set aside")
	cmd.Flags().StringVar(&f.Reason, "reason", "", "only those with this in their reason")
}

func newDeadLettersListCommand() *cobra.Command {
	var f inspect.Filter
	var limit int
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "list dead letters, oldest first", Args: cobra.NoArgs}
	looking(cmd, func(at logCommand) error {
		if asJSON {
			return listJSON(at.Context(), at.log, f, limit, at.OutOrStdout())
		}
		return list(at.Context(), at.log, f, limit, at.OutOrStdout())
	})
	filterFlags(cmd, &f)
	cmd.Flags().IntVar(&limit, "limit", 100, "list only so many; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

func list(ctx context.Context, log *stream.Log, f inspect.Filter, limit int, out io.Writer) error {
	var letters []stream.DeadLetter
	more := int64(0)
	for d, err := range log.DeadLetters(ctx) {
		switch {
		case err != nil:
			return err
		case !f.Match(d):
		case limit > 0 && len(letters) == limit:
			more++
		default:
			d.Value = nil // a list does not show values
			letters = append(letters, d)
		}
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(out, "no dead letters")
		return err
	}
	err := inspect.PrintLetters(out, letters, time.Now())
	if more > 0 && err == nil {
		_, err = fmt.Fprintf(out, "and %s more (--limit 0 lists all)\n", inspect.Count(more))
	}
	return err
}

func listJSON(ctx context.Context, log *stream.Log, f inspect.Filter, limit int, out io.Writer) error {
	e := json.NewEncoder(out)
	n := 0
	for d, err := range log.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if !f.Match(d) {
			continue
		}
		if err := e.Encode(inspect.NewLetter(d)); err != nil {
			return err
		}
		if n++; n == limit {
			return nil
		}
	}
	return nil
}

func newDeadLettersShowCommand() *cobra.Command {
	var whole, asJSON, raw bool
	cmd := &cobra.Command{Use: "show NUMBER", Short: "show one dead letter: its headers, and its bytes as JSON if they can be decoded", Args: wantArgs(1, 1)}
	looking(cmd, func(at logCommand) error {
		d, err := findLetter(at.Context(), at.log, at.args[0])
		if err != nil {
			return err
		}
		out := at.OutOrStdout()
		switch {
		case raw:
			_, err = out.Write(d.Value)
		case asJSON:
			var text []byte
			if text, err = inspect.JSONLetter(d); err == nil {
				_, err = fmt.Fprintf(out, "%s\n", text)
			}
		default:
			err = inspect.PrintLetter(out, d, whole)
		}
		return err
	})
	f := cmd.Flags()
	f.BoolVar(&whole, "whole", false, "show all bytes of a value that cannot be decoded")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&raw, "raw", false, "write the record's bytes and nothing else")
	return cmd
}

// findLetter reads the dead letter with a number.
func findLetter(ctx context.Context, log *stream.Log, number string) (stream.DeadLetter, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return stream.DeadLetter{}, fmt.Errorf("%q is not the number of a dead letter; `pairstream dead-letters list` shows the numbers", number)
	}
	for d, err := range log.DeadLettersFrom(ctx, n) {
		if err != nil {
			return d, err
		}
		if d.Number == n {
			return d, nil
		}
		break
	}
	return stream.DeadLetter{}, fmt.Errorf("there is no dead letter %d; `pairstream dead-letters list` shows the numbers", n)
}

// putBack says which dead letters `dead-letters replay` is to put back.
type putBack struct {
	filter  inspect.Filter
	numbers []string
	all     bool
	dryRun  bool
}

func newDeadLettersReplayCommand() *cobra.Command {
	var p putBack
	cmd := &cobra.Command{
		Use:   "replay [NUMBER...]",
		Short: "put pairs back at the end of their lane, after the cause of the failure was removed",
		Long: "Publishes dead letters again, unchanged, at the end of the lane of `pairs` that they came from. Only pairs can go back,\n" +
			"and only as long as their lane has no final seal. A letter goes back once, unless you give its number.",
		Args: func(_ *cobra.Command, args []string) error {
			p.numbers = args
			if chosen := p.all || p.filter != (inspect.Filter{}); chosen == (len(args) > 0) {
				return errors.New("give either numbers, or --reason, --stage or --all")
			}
			return nil
		},
	}
	looking(cmd, func(at logCommand) error { return p.run(at.Context(), at.log, at.OutOrStdout()) })
	filterFlags(cmd, &p.filter)
	cmd.Flags().BoolVar(&p.all, "all", false, "put back all that can be")
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "only print what would be done")
	return cmd
}

// run publishes the chosen letters. If a letter that the user named cannot go back, run fails before it sends any. If
// a filter chose the letter, run counts it.
func (p putBack) run(ctx context.Context, log *stream.Log, out io.Writer) error {
	check, err := inspect.NewPutBack(ctx, log, len(p.numbers) > 0)
	if err != nil {
		return err
	}
	publisher := log.NewPublisher(stream.PublisherOptions{Name: "dead-letters"})
	var sent []int64
	var stay int64
	var why error
	send := func(d stream.DeadLetter) error {
		if err := check.Check(d); err != nil {
			stay++
			why = err
			return nil
		}
		if !p.dryRun {
			if err := publisher.Republish(ctx, d); err != nil {
				return err
			}
		}
		sent = append(sent, d.Number)
		return nil
	}
	err = p.each(ctx, log, check, send)
	err = errors.Join(err, producer.ClosePublisher(publisher))
	if !p.dryRun { // after a failure half-way as well: the letters before it are on their way
		slices.Sort(sent)
		err = errors.Join(err, log.RememberPutBack(context.WithoutCancel(ctx), sent))
	}
	if err != nil {
		return err
	}
	verb := "put back"
	if p.dryRun {
		verb = "would put back"
	}
	fmt.Fprintf(out, "%s %s\n", verb, inspect.Count(int64(len(sent))))
	if stay > 0 {
		fmt.Fprintf(out, "%s cannot be put back; the last of them: %v\n", inspect.Count(stay), why)
	}
	return nil
}

// each calls send for every chosen letter.
func (p putBack) each(ctx context.Context, log *stream.Log, check *inspect.PutBack, send func(stream.DeadLetter) error) error {
	var named []stream.DeadLetter
	for _, number := range p.numbers {
		d, err := findLetter(ctx, log, number)
		if err == nil {
			err = check.Check(d)
		}
		if err != nil {
			return err
		}
		named = append(named, d)
	}
	for _, d := range named {
		if err := send(d); err != nil {
			return err
		}
	}
	if len(named) > 0 {
		return nil
	}
	for d, err := range log.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if p.filter.Match(d) {
			if err := send(d); err != nil {
				return err
			}
		}
	}
	return nil
}
