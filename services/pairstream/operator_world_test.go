//go:build cgo

package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

const (
	siteTars     = 4
	imagesPerTar = 4
	worldLanes   = 2
	patience     = 300 * time.Millisecond
)

// site is what all sequences share: the first weights and the tars that are copied for each.
type site struct {
	weights string
	others  string            // weights with another fingerprint
	prints  map[string]string // fingerprints of the weights, by path
	tars    map[string][]byte
	set     map[string]bool // variables of the process
	before  string          // the program of the release before; empty: none is at hand
}

func newSite(t *testing.T) site {
	t.Helper()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer w.Close()
	dir := t.TempDir()
	s := site{weights: filepath.Join(dir, "w.safetensors"), others: filepath.Join(dir, "o.safetensors"), tars: make(map[string][]byte), set: make(map[string]bool), prints: make(map[string]string), before: beforeThis(t)}
	for seed, path := range []string{s.weights, s.others} {
		m, err := model.New(t.Context(), w, model.Config{
			ImageSize: 16, PatchSize: 16, VisionDim: 16, VisionDepth: 1, VisionHeads: 2,
			TextHidden: 16, TextLayers: 2, FusionLayer: 1, TextHeads: 2, TextIntermediate: 16,
			VocabSize: 8, MaxPositions: 8, EmbedDim: 8, TextTokens: 8,
		}, uint64(seed))
		must.Do(t, err)
		m.Vocab = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "dog"}
		must.Do(t, m.Save(t.Context(), path))
		if s.prints[path], err = m.Fingerprint(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.Free()
	}
	for n := range siteTars {
		var entries []entry
		for i := range imagesPerTar {
			k := n*imagesPerTar + i
			entries = append(entries, entry{fmt.Sprintf("%d.png", k), picture(t, byte(7*k))}, entry{fmt.Sprintf("%d.txt", k), fmt.Sprintf("%d two dog", k)})
			if i%2 == 0 { // a second caption of the same image
				entries = append(entries, entry{fmt.Sprintf("%d.json", k), fmt.Sprintf(`{"captions":["one dog %d"]}`, k)})
			}
		}
		if n == siteTars-1 {
			entries = append(entries, entry{"bad.jpg", "no image"}, entry{"bad.txt", "one"})
		}
		s.tars[fmt.Sprintf("%d.tar", n)] = tarOf(t, entries...)
	}
	return s
}

// world is one installation: a bucket, a broker, settings and the processes that run.
type world struct {
	t       *testing.T
	rt      *rapid.T
	site    site
	dir     string
	env     map[string]string
	spaces  []*space
	here    *space
	members map[string][]*member // by stage
	ranks   []*member            // trainers beside rank 0, which is the stage's member
	past    []*member
	killing bool            // processes that start now are killed at their end
	old     map[string]bool // stages that are of the release before
	epochs  map[int]bool    // values that EPOCHS has had

	uploading bool // copies of checkpoints go to a place of each namespace
	sum       *tally
	begun     time.Time
}

// names keeps namespaces apart on brokers that many sequences share.
var names atomic.Int64

func newWorld(t *testing.T, rt *rapid.T, s site, brokers string, sum *tally) *world {
	w := &world{t: t, rt: rt, site: s, members: make(map[string][]*member), epochs: make(map[int]bool), old: make(map[string]bool), sum: sum, begun: time.Now()}
	for _, stage := range stageNames {
		w.old[stage] = s.before != ""
	}
	var err error
	if w.dir, err = os.MkdirTemp("", "operator"); err != nil { //nolint:usetesting // rapid plays many worlds in one test, and each is removed at its end
		rt.Fatal(err)
	}
	w.restoreTars()
	w.env = map[string]string{
		"KAFKA_BROKERS": brokers, "LANES": strconv.Itoa(worldLanes), "SEED": "3", "BUCKET_ROOTS": "file://" + w.bucket(), "TRAIN_EXIT_AT_END": "true",
		"ENCODER_CHECKPOINT": s.weights, "COND_CHECKPOINT": s.weights, "COND_MIN_PRECISION": "0", "TRAIN_INIT": s.weights, "TORCH_THREADS": "1",
		"ENCODER_BATCH_SIZE": "3", "GROUP_SIZE": "6", "CLUSTERS": "2", "NEIGHBORS_K": "2", "NEIGHBORS_K1": "2", "NEIGHBORS_K2": "4", "NOUN_MIN_COUNT": "1",
		"EPOCHS": "2", "EPOCH_GROUPS": "1", "STEP_BATCHES": "1", "BATCH_SIZE": "4", "QUEUE_SIZE": "8", "SEARCH_SPACE": "8", "CANDIDATES": "1", "UNI_WEIGHT": "1", "GNS_CLUSTERS": "1", "GNS_PER_CLUSTER": "2",
		"SPOOL_DIR": filepath.Join(w.bucket(), "spool"), "LR_WARMUP_STEPS": "2", "LR_TOTAL_STEPS": "100", "CHECKPOINT_EVERY": "3", "STREAM_SESSION_TIMEOUT": "1s",
		"WORLD_SIZE": "1", "RANK_JOIN_TIMEOUT": "20s", "REPACK_SIDE": "16",
		"KAFKA_REPLICATION": os.Getenv("KAFKA_REPLICATION"), "KAFKA_MIN_INSYNC": os.Getenv("KAFKA_MIN_INSYNC"),
	}
	maps.DeleteFunc(w.env, func(_, v string) bool { return v == "" })
	w.epochs[2] = true
	w.newSpace()
	return w
}

func (w *world) bucket() string { return filepath.Join(w.dir, "bucket") }

func (w *world) restoreTars() {
	w.check(os.MkdirAll(w.bucket(), 0o755))
	for name, content := range w.site.tars {
		w.check(os.WriteFile(filepath.Join(w.bucket(), name), content, 0o600))
	}
}

// check fails the sequence when something fails that no action has to do with.
func (w *world) check(err error) {
	if err != nil {
		w.fatalf("%v", err)
	}
}

// fatalf fails the sequence and shows what the processes have said.
func (w *world) fatalf(format string, args ...any) {
	var said strings.Builder
	for _, m := range w.past {
		fmt.Fprintf(&said, "--- %s in %s: %s\n%s", m.name(), m.namespace, m.state(), m.log)
	}
	w.rt.Fatalf("%s\n%s", fmt.Sprintf(format, args...), said.String())
}

// newSpace turns to a new namespace, with the topics and a checkpoint folder of its own.
func (w *world) newSpace() {
	w.here = newSpace(fmt.Sprintf("op%d", names.Add(1)))
	w.spaces = append(w.spaces, w.here)
	w.turnTo(w.here)
	w.must("topics", "create", "--without-tombstones") // other sequences take images back as well
}

func (w *world) turnTo(s *space) {
	w.here = s
	w.env["NAMESPACE"], w.env["CHECKPOINT_DIR"] = s.name, w.folder(s)
	if w.uploading {
		w.env["CHECKPOINT_UPLOAD"] = w.place(s)
	}
}

func (w *world) folder(s *space) string {
	return filepath.Join(w.dir, fmt.Sprint("checkpoints-", s.name, "-", s.folder))
}

// leave ends everything.
func (w *world) leave() {
	for _, stage := range stageNames {
		w.stop(stage, false)
	}
	must.Check(w.rt, os.RemoveAll(w.dir))
}

// command runs a command of the operator's, with the settings as they are. Variables are set for the whole test: C
// reads them meanwhile, and must not meet an environment that moves. Other tests do not see them.
func (w *world) command(args ...string) (string, error) {
	for name, value := range w.env {
		if !w.site.set[name] {
			w.t.Setenv(name, value)
			w.site.set[name] = true
		} else if err := os.Setenv(name, value); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(w.t.Context())
	return out.String(), err
}

func (w *world) must(args ...string) string {
	out, err := w.command(args...)
	if err != nil {
		w.fatalf("pairstream %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// noBroker reports whether no broker has answered. Those of a machine with more to do than it can are late.
func noBroker(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no broker answers")
}

// connect opens the log of a namespace for a look.
func (w *world) connect(s *space) *stream.Log {
	environ := maps.Clone(w.env)
	environ["NAMESPACE"] = s.name
	cfg, err := config.Parse[stream.Config](environ)
	w.check(err)
	log, err := stream.Connect(w.t.Context(), cfg, stream.Options{})
	for began := time.Now(); noBroker(err) && time.Since(began) < silence; time.Sleep(patience) {
		log, err = stream.Connect(w.t.Context(), cfg, stream.Options{})
	}
	w.check(err)
	return log
}

// member is a process: one stage with what it needs, in this process, or a program of the release before.
type member struct {
	stage, namespace string
	rank             string // of a trainer beside rank 0
	program          string // of the release before; empty: this version, in this process
	inOrder          bool   // its end leaves it the time to write, note marks and commit
	smallBatches     bool   // its produce requests have 500 bytes
	killed           atomic.Bool
	counters         *stream.Counters
	log              *output
	cancel           context.CancelFunc
	done             chan struct{}
	err              error // how it ended; may be read after done
}

func (m *member) name() string { return strings.TrimSpace(m.stage + " " + m.rank) }

// ended reports whether the process has ended.
func (m *member) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// state says in what state the process is.
func (m *member) state() string {
	switch {
	case !m.ended():
		return fmt.Sprintf("running, %d records in, %d out, lag %d, says %q", m.counters.In.Load(), m.counters.Out.Load(), m.counters.Lag.Load(), m.counters.States())
	case m.err != nil:
		return "ended: " + m.err.Error()
	}
	return "ended"
}

// output keeps what a process logs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was logged so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// lastLine returns the last thing that was logged.
func (o *output) lastLine() string {
	lines := strings.Split(strings.TrimSpace(o.String()), "\n")
	return lines[len(lines)-1]
}

// start starts a stage with the settings as they are: a process, and all ranks of a trainer.
func (w *world) start(stage string) *member {
	if !slices.ContainsFunc(w.members[stage], func(m *member) bool { return !m.ended() }) {
		w.noteStart(stage)
	}
	if stage == "trainer" && w.env["WORLD_SIZE"] != "1" {
		w.joinRanks()
	}
	return w.startOne(stage)
}

// startOne starts a process.
func (w *world) startOne(stage string) *member {
	m := w.launch(&member{stage: stage, namespace: w.here.name}, maps.Clone(w.env))
	w.members[stage] = append(w.members[stage], m)
	return m
}

func (w *world) launch(m *member, environ map[string]string) *member {
	m.inOrder, m.smallBatches = !w.killing, m.stage != "trainer" && len(w.past)%2 == 1
	m.counters, m.log, m.done = new(stream.Counters), new(output), make(chan struct{})
	if w.old[m.stage] {
		m.program = w.site.before
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = m.run(ctx, environ)
	}()
	w.past = append(w.past, m)
	return m
}

func (m *member) run(ctx context.Context, environ map[string]string) error {
	if m.program != "" {
		return m.runProgram(ctx, environ)
	}
	switch m.stage {
	case "encoder":
		return runMember(ctx, m, environ, encoderservice.Run)
	case "indexer":
		return runMember(ctx, m, environ, indexerservice.Run)
	case "discriminator":
		return runMember(ctx, m, environ, discriminatorservice.Run)
	case "trainer":
		return runMember(ctx, m, environ, trainerservice.Run)
	}
	return runMember(ctx, m, environ, func(ctx context.Context, tools device.Tools, s grouperservice.Settings) error {
		return grouperservice.Run(ctx, tools.Log, tools.Instruments, s)
	})
}

// settings are those of a process.
type settings[S any] struct {
	Stream stream.Config
	Device device.Settings
	Stage  S
}

// Validate refuses what every process refuses.
func (s settings[S]) Validate() error {
	return service.ValidateRecords(s.Stage, s.Stream.MaxMessageBytes)
}

// runMember does what the main of a service does.
func runMember[S any](ctx context.Context, m *member, environ map[string]string, run func(context.Context, device.Tools, S) error) (err error) {
	cfg, err := config.Parse[settings[S]](environ)
	if err != nil {
		return err
	}
	cfg.Stream.Linger, cfg.Stream.FlushAfter = 0, 2*time.Millisecond
	if !m.inOrder {
		cfg.Stream.DrainTimeout = time.Millisecond
	}
	if m.smallBatches {
		cfg.Stream.BatchBytes = 500
	}
	rt := service.NewRuntime(slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log, err := stream.Connect(ctx, cfg.Stream, stream.Options{Logger: rt.Log, Registerer: rt.Registry, Patience: patience})
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.EnsureTopics(ctx); err != nil {
		return err
	}
	instruments, err := rt.NewInstruments(m.stage, m.counters)
	if err != nil {
		return err
	}
	shared := device.NewShared(cfg.Device, nil)
	defer func() {
		if cerr := shared.Close(); err == nil {
			err = cerr
		}
	}()
	ctx, tools := shared.For(ctx, log, instruments, new(torch.Meter))
	return run(ctx, tools, cfg.Stage)
}

// stop ends the processes of a stage. With kill, the trainer's folder is left as it was before: the end of a process
// that is killed writes no checkpoint.
func (w *world) stop(stage string, kill bool) {
	folder, before := w.env["CHECKPOINT_DIR"], filepath.Join(w.dir, "before")
	keep := kill && stage == "trainer" && len(w.members[stage]) > 0 && w.members[stage][0].program == ""
	if keep {
		w.copyFolder(folder, before)
	}
	ending := w.members[stage]
	w.members[stage] = nil
	if stage == "trainer" {
		ending, w.ranks = append(ending, w.ranks...), nil
	}
	for _, m := range ending {
		m.killed.Store(kill)
		m.cancel()
	}
	for _, m := range ending {
		select {
		case <-m.done:
		case <-time.After(30 * time.Second):
			w.fatalf("the %s does not end", m.name())
		}
	}
	if keep {
		w.putBack(before, folder)
	}
}

// putBack makes the folder to a copy of from. Published weights stay: their notes in the log say that they are there.
func (w *world) putBack(from, folder string) {
	published, aside := weights.Folder(folder), filepath.Join(w.dir, "published")
	err := os.Rename(published, aside)
	if !os.IsNotExist(err) {
		w.check(err)
	}
	w.copyFolder(from, folder)
	if err == nil {
		w.check(os.RemoveAll(published))
		w.check(os.MkdirAll(folder, 0o755))
		w.check(os.Rename(aside, published))
	}
}

// copyFolder makes the folder to a copy of from, or removes it when there is none.
func (w *world) copyFolder(from, to string) {
	w.check(os.RemoveAll(to))
	if _, err := os.Stat(from); os.IsNotExist(err) {
		return
	}
	w.check(os.CopyFS(to, os.DirFS(from)))
}
