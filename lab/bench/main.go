package main

import (
	"context"
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

	"github.com/pairstream/pairstream/internal/base/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == childCommand {
		exit(serve(ctx, os.Args[2], os.Stdin, os.Stdout))
	}
	exit(run(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bench is one run of the program.
type bench struct {
	short   bool
	limits  bool // of results that are there, and nothing else
	avx2    bool // measure both sides as on a processor without AVX-512
	threads int
	device  string // device of the rows; empty: the table's rows
	repeats int
	python  string
	fetcher string  // Python of the row fetch
	s3      string  // S3 server of the row produce-s3
	peers   string  // folder of the peers' programs
	folder  string  // of this run's files
	before  float64 // load of the machine before the run
	current string  // Python with current wheels of PyPI
	flags   string  // of the processor
	machine Machine

	installed []home   // of the peers' libraries
	self      []string // what stands before the arguments of this program's own side, for tests
	out       io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{out: out}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := f.String("only", "", "rows to measure, comma separated; empty: all")
	list := f.Bool("list", false, "list the rows")
	results := f.String("results", "", "file that the results are merged into; empty: lab/bench/results.json, or "+deviceResults+" with --device")
	write := f.String("write", "", "measure nothing; write the tables of the results into these files, comma separated, between their marks")
	f.StringVar(&b.device, "device", "", "measure on this device (cpu, cuda, cuda:N) what GPUs are for, instead of the table, and write "+deviceTable)
	f.BoolVar(&b.short, "short", false, "small sizes, for correctness alone; the results are not kept")
	f.IntVar(&b.threads, "threads", min(2, runtime.NumCPU()), "threads of either side, and processors that it is pinned to; all of them with --device")
	f.BoolVar(&b.limits, "limits", false, "measure only the limits of results that are there")
	f.BoolVar(&b.avx2, "avx2", false, "measure both sides as on a processor with AVX2 and without AVX-512; the results go to "+avx2Results)
	busy := f.Bool("busy", false, "measure although other programs load the machine; the rows say so")
	f.IntVar(&b.repeats, "repeats", 5, "turns of either side")
	f.StringVar(&b.python, "python", "/usr/bin/python3", "Python with Debian's python3-torch, python3-faiss and python3-pil")
	f.StringVar(&b.current, "current", "bin/venv-peers/bin/python", "Python with the current wheels of PyPI: torch, torchvision, faiss-cpu, and the loaders")
	f.StringVar(&b.s3, "s3", "bin/tools/versitygw", "versitygw, an S3 server")
	f.StringVar(&b.fetcher, "fetcher", "bin/venv-fetch/bin/python", "Python with img2dataset")
	f.StringVar(&b.peers, "peers", "lab/bench/peers", "folder of the peers' programs")
	if err := f.Parse(args); err != nil {
		return err
	}
	table := b.table(results)
	switch {
	case *list:
		for _, r := range table {
			fmt.Fprintf(out, "%-16s %s\n", r.name, r.what)
		}
		return nil
	case *write != "":
		return writeTables(*results, strings.Split(*write, ","))
	}
	if b.short {
		b.repeats, *results = 1, ""
		b.threads = 1 // on a busy machine the threads of a side wait for one another more than they work
	}
	chosen, err := b.choose(table, *only)
	if err != nil {
		return err
	}
	if err := b.look(ctx); err != nil {
		return err
	}
	if b.before, err = quiet(ctx, out, *busy || b.short, machine.Load, quietPause); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "pairstream-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	if err := b.measure(ctx, table, chosen, *results); err != nil || b.short {
		return err
	}
	if b.device == "" {
		return tellBehind(out, *results)
	}
	return writeDevice(*results, deviceTable)
}

// look finds out about the machine and the peers' libraries.
func (b *bench) look(ctx context.Context) (err error) {
	if b.machine, b.flags = thisMachine(ctx), machine.Field("/proc/cpuinfo", "flags"); b.avx2 {
		b.machine.Instructions, b.flags = "AVX2", "avx2"
	}
	if b.device == "" {
		b.installed, err = b.homes()
	} else if !b.short {
		b.threads = runtime.NumCPU()
	}
	return err
}

// choose returns the rows that the user names. A short run of all of them leaves out those that want what it does not
// install.
func (b *bench) choose(table []row, only string) ([]row, error) {
	chosen, err := choose(table, only)
	if err == nil && b.short && only == "" {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(r row) bool {
			return r.name == loaderRowName || r.name == fetchRowName || r.name == produceS3RowName
		})
	}
	return chosen, err
}

// table returns the rows to choose from. It also sets the file for their results, unless the user gave one.
func (b *bench) table(results *string) []row {
	table, file := rows, "lab/bench/results.json"
	switch {
	case b.device != "":
		table, file = deviceRows, deviceResults
	case b.avx2:
		file = avx2Results
	}
	if *results == "" {
		*results = file
	}
	return table
}

// choose finds rows by name.
func choose(table []row, names string) ([]row, error) {
	if names == "" {
		return table, nil
	}
	var chosen []row
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(table, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("row %q is not known; --list lists them", name)
		}
		chosen = append(chosen, table[i])
	}
	return chosen, nil
}

// measure measures row after row. When one fails, it keeps the results so far.
func (b *bench) measure(ctx context.Context, table, chosen []row, results string) error {
	if b.limits {
		return b.remeasure(ctx, chosen, results)
	}
	var failed error
	for _, r := range chosen {
		started := time.Now()
		result, err := r.measure(ctx, b)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("row %s: %w", r.name, err))
			fmt.Fprintf(b.out, "%-16s failed after %.0f s: %v\n", r.name, time.Since(started).Seconds(), err)
			continue
		}
		r.describe(ctx, result, b)
		if measure := limits[r.name]; measure != nil && !b.short {
			if err := measure(ctx, b, result); err != nil {
				failed = errors.Join(failed, fmt.Errorf("measuring the limit of row %s: %w", r.name, err))
			}
		}
		result.Met = result.Met || result.Limit != nil && result.Limit.Share >= enough
		fmt.Fprintf(b.out, "%-16s %s (%.0f s)\n", r.name, result.line(), time.Since(started).Seconds())
		if results != "" {
			if err := merge(results, table, result); err != nil {
				return errors.Join(failed, err)
			}
		}
	}
	return failed
}

const (
	maxLoad    = 1.0 // of the machine before a run
	quietTries = 18  // after a build the average of the last minute takes a while to fall
	quietPause = 10 * time.Second
)

// quiet waits until other programs leave the machine alone, and returns the load then. A busy run does not wait.
func quiet(ctx context.Context, out io.Writer, busy bool, load func() (float64, error), pause time.Duration) (float64, error) {
	for try := 0; ; try++ {
		now, err := load()
		if err != nil || now <= maxLoad || busy {
			return now, err
		}
		if try == quietTries {
			return 0, fmt.Errorf("the load of the machine is %.2f, want at most %g: end other programs, or give --busy, which marks the rows", now, maxLoad)
		}
		fmt.Fprintf(out, "the load of the machine is %.2f, waiting until it is at most %g (--busy does not wait)\n", now, maxLoad)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
