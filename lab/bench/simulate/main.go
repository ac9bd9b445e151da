package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == childCommand:
		err = serve(ctx, os.Args[2], os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == rankCommand:
		err = beRank(ctx, os.Args[2], os.Stdout)
	default:
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// sizes says how large the simulations are.
type sizes struct {
	Lanes, Pairs, Epochs int
	Epoch                time.Duration
	out                  io.Writer
}

func (s sizes) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// fleet returns the cluster of these sizes.
func (s sizes) fleet() fleet {
	return fleet{
		Crawl: crawl{Lanes: s.Lanes, Pairs: s.Pairs, Dim: 16}, Epochs: s.Epochs, Batch: 100, Space: 100, Queue: 100,
		Epoch: s.Epoch, Walks: time.Duration(float64(s.Epoch) * realWalks / 1302), // 1,302 s: 256 GPUs,
	}
}

// killsIn says whether the grouper is killed before an epoch: the second, one in the middle, and the last.
func (s sizes) killsIn(epoch int) bool {
	return epoch == 1 || epoch == s.Epochs/2 || epoch == s.Epochs-1
}

// simulations lists what can be played.
var simulations = []struct {
	name string
	play func(context.Context, sizes) (any, error)
}{
	{"idle", idle}, {"kills", kills}, {"reads", reads}, {"bytes", bytesPerPair}, {"plan", foresee}, {"ranks", exchange}, {"overlap", overlap},
}

// errNotHere marks a simulation that this machine cannot play.
var errNotHere = errors.New("it is not played here")

// Result is a simulation with its sizes and the machine that played it.
type Result struct {
	Sizes  sizes           `json:"sizes"`
	When   string          `json:"when"`
	Cores  int             `json:"cores"`
	Load   string          `json:"load"` // of the machine, at the end: over 1, 5 and 15 minutes
	Result json.RawMessage `json:"result"`
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s := sizes{out: out}
	f := flag.NewFlagSet("simulate", flag.ContinueOnError)
	only := f.String("only", "", "simulations to play, comma separated: idle, kills, reads, bytes, plan, ranks, overlap; empty: all")
	file := f.String("results", "lab/bench/simulate/results.json", "file that the results are merged into")
	write := f.String("write", "", "play nothing; write the tables of the results into this document, between its marks")
	f.IntVar(&s.Lanes, "lanes", 40, "lanes")
	f.IntVar(&s.Pairs, "pairs", 2000, "pairs of a group, a multiple of 100")
	f.IntVar(&s.Epochs, "epochs", 20, "epochs")
	f.DurationVar(&s.Epoch, "epoch", 2600*time.Millisecond, "time of the trainer for an epoch of all lanes")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *write != "" {
		return writeTables(*file, *write)
	}
	known := make([]string, 0, len(simulations))
	for _, sim := range simulations {
		known = append(known, sim.name)
	}
	for name := range strings.SplitSeq(*only, ",") {
		if name != "" && !slices.Contains(known, name) {
			return fmt.Errorf("--only %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	return s.play(ctx, *only, *file)
}

// play plays the named simulations, all of them when none is named, and keeps what comes out.
func (s sizes) play(ctx context.Context, only, file string) error {
	results, err := load(file)
	if err != nil {
		return err
	}
	for _, sim := range simulations {
		if only != "" && !slices.Contains(strings.Split(only, ","), sim.name) {
			continue
		}
		got, err := sim.play(ctx, s)
		if only == "" && errors.Is(err, errNotHere) { // its results stay
			s.say("%s: %v", sim.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sim.name, err)
		}
		raw, err := json.Marshal(got)
		if err != nil {
			return err
		}
		load, _ := os.ReadFile("/proc/loadavg") // systems without it say nothing
		fields := append(strings.Fields(string(load)), "", "", "")
		results[sim.name] = Result{s, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), strings.TrimSpace(strings.Join(fields[:3], " ")), raw}
		if err := store(file, results); err != nil {
			return err
		}
	}
	return nil
}
