package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/lab/experiments"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

// experimentsCommand holds what the command line asks for.
type experimentsCommand struct {
	only     []string
	seeds    []uint
	tuning   bool
	short    bool
	scale    int
	out      string // folder of the results
	work     string // folder of scenes and first models
	device   string
	photos   string // folder or tars, for x9 and x12
	world    string // folder of tars whose JSON has `same`; empty: the experiments of the page
	models   string // folder of the demo's first models; empty: they are not made
	settings device.Settings

	mu sync.Mutex // guards the output and the results
	to io.Writer
}

func newExperimentsCommand() *cobra.Command {
	c := &experimentsCommand{}
	cmd := &cobra.Command{
		Use:   "experiments",
		Short: "repeat findings of the papers where the truth is known, and say which hold",
		Long: "Makes the results behind docs/experiments.md, several seeds at a time. Runs that are in --out already, of the same\n" +
			"settings, are not made again. A claim holds when the 95 % interval of its paired differences lies above 0.",
		Args: cobra.NoArgs,
		RunE: c.run,
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.only, "only", nil, "experiments, such as x1,x8; without it all")
	f.UintSliceVar(&c.seeds, "seeds", nil, "seeds; without it those that are reported")
	f.BoolVar(&c.tuning, "tuning", false, "run on the seeds on which settings are chosen, 101 to 103, and keep no result")
	f.BoolVar(&c.short, "short", false, "run each experiment small, on two seeds, to test the way and not the claims; keep no result")
	f.IntVar(&c.scale, "scale", 1, "times as many scenes")
	f.StringVar(&c.out, "out", "data/experiments/results", "folder of the results")
	f.StringVar(&c.work, "work", "data/experiments", "folder of scenes and first models")
	f.StringVar(&c.photos, "photographs", "", "folder of tars of photographs with five captions each, for x9 and x12, with train-*.tar, test-*.tar and judgements.tsv for x13 and x16; for x15 a folder that lab/worlds/emoji.py made; without it these are left out")
	f.StringVar(&c.world, "world", "", "folder of WebDataset tars whose JSON has `same`, an id that all pictures of one thing share: compare the arms of MAFA on it, and nothing else")
	cmd.MarkFlagsMutuallyExclusive("world", "only")
	f.StringVar(&c.models, "first-models", "", "make the first models of the demo and of x2 in this folder, with their card, and nothing else")
	f.StringVar(&c.device, "device", "", "cpu, cuda or cuda:N; without it DEVICE")
	return cmd
}

func (c *experimentsCommand) run(cmd *cobra.Command, _ []string) (err error) {
	c.to = cmd.OutOrStdout()
	if c.settings, err = config.Parse[device.Settings](config.Environ()); err != nil {
		return err
	}
	if c.device != "" {
		c.settings.Name = c.device
	}
	if c.settings.Threads == 0 {
		c.settings.Threads = 1 // models this small gain more from several trainings at a time
	}
	if c.short {
		dir, made := os.MkdirTemp("", "pairstream-experiments-")
		if made != nil {
			return fmt.Errorf("making a folder for short experiments: %w", made)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		c.out, c.work = filepath.Join(dir, "results"), dir
	}
	if err := os.MkdirAll(c.work, 0o755); err != nil {
		return fmt.Errorf("making the folder --work: %w", err)
	}
	if c.models != "" {
		return c.makeModels(cmd.Context())
	}
	if c.world != "" {
		return c.runOne(cmd.Context(), evidence.World(), &experiments.Shelf{Dir: c.work})
	}
	chosen := evidence.All()
	if len(c.only) > 0 {
		chosen = nil
	}
	for _, id := range c.only {
		e, err := evidence.Find(id)
		if err != nil {
			return err
		}
		chosen = append(chosen, e)
	}
	shelf := &experiments.Shelf{Dir: c.work}
	for _, e := range chosen {
		if e.Photographs && c.photos == "" && !c.short && len(c.only) == 0 {
			fmt.Fprintf(c.to, "\n%s is left out: it wants --photographs\n", e.ID)
			continue
		}
		if err := c.runOne(cmd.Context(), e, shelf); err != nil {
			return fmt.Errorf("experiment %s: %w", e.ID, err)
		}
	}
	return nil
}

// makeModels makes the first models that the demo and x2 begin with.
func (c *experimentsCommand) makeModels(ctx context.Context) error {
	worker, err := c.settings.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()
	log := func(line string) { fmt.Fprintln(c.to, line) }
	return experiments.MakeModels(ctx, experiments.Job{Worker: worker, Dir: c.work, Log: log}, c.models)
}

// runOne makes the missing runs of an experiment and prints its result.
func (c *experimentsCommand) runOne(ctx context.Context, e evidence.Experiment, shelf *experiments.Shelf) error {
	plan, err := c.plan(e.ID)
	if err != nil {
		return err
	}
	result, err := c.begin(ctx, plan)
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	limit := max(runtime.GOMAXPROCS(0)/c.settings.Threads, 1)
	if e.Timed {
		limit = 1
	}
	tasks.SetLimit(limit)
	for _, seed := range c.chosenSeeds(e) {
		if result.Has(seed) {
			continue
		}
		tasks.Go(func() error {
			run, err := c.runSeed(ctx, plan, seed, shelf)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			result.Add(run)
			if c.tuning {
				return nil
			}
			return result.Write(c.out)
		})
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	return e.Print(c.to, result)
}

func (c *experimentsCommand) plan(id string) (experiments.Plan, error) {
	if c.world != "" {
		return experiments.NewWorld(c.world, c.short)
	}
	return experiments.NewPlan(id, c.short, c.scale)
}

func (c *experimentsCommand) chosenSeeds(e evidence.Experiment) []uint64 {
	var seeds []uint64
	for _, s := range c.seeds {
		seeds = append(seeds, uint64(s))
	}
	switch {
	case len(seeds) > 0:
		return seeds
	case c.tuning:
		return evidence.Tuning()
	case c.short:
		return e.Seeds[:2]
	}
	return e.Seeds
}

// begin returns the result so far, or an empty one if there is none of the same settings.
func (c *experimentsCommand) begin(ctx context.Context, plan experiments.Plan) (*evidence.Result, error) {
	settings, err := json.Marshal(plan.Settings)
	if err != nil {
		return nil, fmt.Errorf("encoding the settings: %w", err)
	}
	source, err := evidence.ReadSource(ctx, "")
	if err != nil { // outside of a clone
		fmt.Fprintf(c.to, "%s: the result will not say what it was made of, and no later run continues it: %v\n", plan.ID, err)
	}
	r := &evidence.Result{
		Experiment: plan.ID, Source: source, Scale: c.scale, Short: c.short, Settings: settings,
		Machine: evidence.Machine{
			Processor: machine.Processor(), Processors: runtime.NumCPU(), Device: c.settings.Name, Threads: c.settings.Threads,
		},
	}
	if c.tuning {
		return r, nil
	}
	earlier, err := evidence.Read(c.out, plan.ID)
	if err != nil {
		return nil, err
	}
	if r.Continues(earlier) {
		r.Runs = earlier.Runs
	}
	return r, nil
}

func (c *experimentsCommand) runSeed(ctx context.Context, plan experiments.Plan, seed uint64, shelf *experiments.Shelf) (evidence.Run, error) {
	worker, err := c.settings.NewWorker()
	if err != nil {
		return evidence.Run{}, err
	}
	defer worker.Close()
	began := time.Now()
	measures, err := plan.Run(ctx, experiments.Job{Worker: worker, Dir: c.work, Seed: seed, Shelf: shelf, Photos: c.photos, Log: func(line string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprintf(c.to, "%s, seed %d: %s\n", plan.ID, seed, line)
	}})
	run := evidence.Run{Seed: seed, Seconds: time.Since(began).Seconds(), Measures: measures}
	run.Load, _ = machine.Load() // systems without it say nothing
	return run, err
}

func newCandidatesCommand() *cobra.Command {
	sizes := experiments.DefaultSizes()
	sizes.Epochs = 3
	var seed uint64
	cmd := &cobra.Command{
		Use:   "candidates",
		Short: "measure on generated scenes how many candidates (CANDIDATES) Con-D has to score to find the hardest, and what that costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := config.Parse[device.Settings](config.Environ())
			if err != nil {
				return err
			}
			worker, err := settings.NewWorker()
			if err != nil {
				return err
			}
			defer worker.Close()
			dir, err := os.MkdirTemp("", "pairstream-candidates-")
			if err != nil {
				return fmt.Errorf("making a folder for scenes and weights: %w", err)
			}
			defer os.RemoveAll(dir)
			rows, err := experiments.RunCoverage(cmd.Context(), experiments.Job{
				Worker: worker, Dir: dir, Seed: seed, Sizes: sizes, Log: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) },
			})
			if err != nil {
				return err
			}
			return experiments.PrintCoverage(cmd.OutOrStdout(), rows)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&seed, "seed", 1, "of scenes and weights")
	f.IntVar(&sizes.Scenes, "scenes", sizes.Scenes, "scenes, with a caption each")
	f.Int64Var(&sizes.FirstSteps, "first-steps", sizes.FirstSteps, "steps of the first model, which is Con-D as well")
	f.IntVar(&sizes.FirstBatch, "batch", sizes.FirstBatch, "N: pairs of a mini-batch")
	f.IntVar(&sizes.Epochs, "epochs", sizes.Epochs, "epochs; the first one is not counted")
	return cmd
}
