//go:build cgo

package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/forkserver"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// asService makes this test's binary one of the services, so that the tests need not build the binaries.
const asService = "PAIRSTREAM_TEST_AS"

// forks names the socket of the server that makes processes, for this process and those that are apart.
const forks = "PAIRSTREAM_TEST_FORKSERVER"

// serveForks starts that server, unless there is one.
func serveForks() error {
	if os.Getenv(forks) != "" {
		return nil
	}
	return startLocked(func() error {
		socket, err := forkserver.Serve(context.Background())
		if err != nil {
			return err
		}
		return os.Setenv(forks, socket)
	})
}

func TestMain(m *testing.M) {
	switch name := os.Getenv(asService); name {
	case "":
		if args := os.Getenv(testArgs); args != "" {
			os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
			if err := os.Unsetenv(testArgs); err != nil {
				panic(err)
			}
		}
		if err := os.Setenv("CONSOLE_ADDR", "off"); err != nil { // of `up`, which would take a port and leave an index here
			panic(err)
		}
		if err := serveForks(); err != nil {
			panic(err)
		}
		os.Exit(runTests(m))
	case "broker":
		os.Args = []string{"pairstream", "broker", "--addr", cmp.Or(os.Getenv("BROKER_ADDR"), "127.0.0.1:0"), "--data", os.Getenv("BROKER_DATA")}
		main()
	case "produce":
		os.Args = append([]string{"pairstream"}, strings.Split(os.Getenv("PRODUCE_ARGS"), "\n")...)
		main()
	default:
		os.Args[0] = name
		main()
	}
}

// process is a service that runs as a process of its own.
type process struct {
	*forkserver.Process
	name string
	log  *output
	done chan struct{} // closed when it has ended
	err  error         // how it ended; may be read after done
}

func start(t *testing.T, name string, env ...string) *process {
	t.Helper()
	nowhere := must.Get(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer nowhere.Close()
	return startWriting(t, nowhere, name, env...)
}

// startWriting starts a process that writes its output to a file.
func startWriting(t *testing.T, to *os.File, name string, env ...string) *process {
	t.Helper()
	read, write := must.Get2(os.Pipe())(t)
	defer write.Close()
	p := &process{name: name, log: new(output), done: make(chan struct{})}
	p.Process = must.Get(forkserver.Start(os.Getenv(forks), append(append(os.Environ(), asService+"="+name), env...), to, write))(t)
	go func() {
		defer close(p.done)
		defer read.Close()
		_, err := io.Copy(p.log, read)
		p.err = errors.Join(p.Wait(), err)
	}()
	return p
}

// startLine starts a process, and returns the first line that it prints.
func startLine(t *testing.T, name string, env ...string) (p *process, line string) {
	t.Helper()
	read, write, err := os.Pipe()
	must.Do(t, err)
	p = startWriting(t, write, name, env...)
	write.Close()
	output := bufio.NewReader(read)
	line, err = output.ReadString('\n')
	if err != nil {
		<-p.done
		t.Fatalf("%s says %q (%v)\n%s", name, line, err, p.log)
	}
	go func() {
		defer read.Close()
		_, _ = output.WriteTo(io.Discard)
	}()
	return p, strings.TrimSpace(line)
}

// startLocked starts a process from a thread that lasts as long as this one. Linux sends Pdeathsig when the starting
// thread ends, not the process.
func startLocked(start func() error) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- start()
		select {}
	}()
	return <-started
}

// stop asks the process to end and checks that it does so cleanly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	if <-p.done; p.err != nil {
		t.Errorf("%s: %v\n%s", p.name, p.err, p.log)
	}
}

// kill ends the process without a warning.
func (p *process) kill(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		t.Errorf("%s ended by itself: %v\n%s", p.name, p.err, p.log)
	default:
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	<-p.done
}

// killWhen kills the process as soon as it is due. It returns false if the process ends before that, as it should.
func (p *process) killWhen(t *testing.T, due func() bool) bool {
	t.Helper()
	for !due() {
		select {
		case <-p.done:
			if p.err != nil {
				t.Fatalf("%s: %v\n%s", p.name, p.err, p.log)
			}
			return false
		case <-time.After(time.Millisecond):
		}
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.done
	return true
}

// startBroker starts the broker as a process and returns its address.
func startBroker(t *testing.T) string {
	t.Helper()
	p, addr := startBrokerOn(t, t.TempDir(), "")
	t.Cleanup(func() { p.stop(t) })
	return addr
}

// startBrokerOn starts the broker on a data directory, at an address unless any will do.
func startBrokerOn(t *testing.T, dir, addr string) (*process, string) {
	t.Helper()
	p, line := startLine(t, "broker", "BROKER_DATA="+dir, "BROKER_ADDR="+addr)
	_, addr, ok := strings.Cut(line, "KAFKA_BROKERS=")
	if !ok {
		t.Fatalf("the broker says %q\n%s", line, p.log)
	}
	return p, addr
}

// outcome returns what a run left behind: digests of the lane topics, and the hash of the last checkpoint.
func outcome(t *testing.T, namespace, folder string) map[string]string {
	t.Helper()
	t.Setenv("NAMESPACE", namespace)
	log := must.Get(rundir.Connect(t.Context()))(t)
	defer log.Close()
	found := map[string]string{}
	for _, info := range schemas.Catalogue() {
		if !info.Lane {
			continue
		}
		for lane := range log.Config().Lanes {
			digest := must.Get(log.Digest(t.Context(), info.Topic, lane, stream.Position{}, -1))(t)
			if digest.Records == 0 {
				t.Errorf("namespace %s: %s has no records in lane %d", namespace, info.Topic, lane)
			}
			found[fmt.Sprintf("%s, lane %d", info.Topic, lane)] = fmt.Sprintf("%d records %s", digest.Records, digest.Sum())
		}
	}
	files := checkpoints(t, folder)
	found["checkpoint"] = checkpointDigest(t, files[len(files)-1])
	return found
}

// checkpointDigest sums up the whole state of a training except its places in the log, because repetitions shift
// offsets.
func checkpointDigest(t *testing.T, path string) string {
	t.Helper()
	file := must.Get(safetensors.Open(path))(t)
	h := sha256.New()
	for _, name := range slices.Sorted(slices.Values(file.Names())) {
		tensor, _ := file.Tensor(name)
		fmt.Fprintf(h, "%s %s %v %d\n", name, tensor.DType, tensor.Shape, len(tensor.Data))
		h.Write(tensor.Data)
	}
	return fmt.Sprintf("%s, %d tensors %x", filepath.Base(path), len(file.Names()), h.Sum(nil))
}

// setUpPipeline draws scenes, makes a first model and sets the settings of all stages. It returns the paths of its
// files.
func setUpPipeline(t *testing.T, scenes int) (in func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	in = func(name string) string { return filepath.Join(dir, name) }
	for name, value := range map[string]string{
		"LANES": "2", "SEED": "3", "BUCKET_ROOTS": "file://" + dir, "TRAIN_EXIT_AT_END": "true", "LOG_LEVEL": "warn",
		"ENCODER_CHECKPOINT": in("w.safetensors"), "COND_CHECKPOINT": in("w.safetensors"), "COND_MIN_PRECISION": "0", "TRAIN_INIT": in("w.safetensors"),
		"GROUP_SIZE": "16", "CLUSTERS": "3", "NEIGHBORS_K2": "8", "NOUN_MIN_COUNT": "1", "EPOCHS": "2", "BATCH_SIZE": "4", "STEP_BATCHES": "1", "QUEUE_SIZE": "8",
		"SEARCH_SPACE": "8", "UNI_WEIGHT": "1", "LR_WARMUP_STEPS": "2", "LR_TOTAL_STEPS": "100", "TORCH_THREADS": "1",
	} {
		t.Setenv(name, value)
	}
	mustCommand(t, "synth", in("scenes"), "--scenes", strconv.Itoa(scenes), "--side", "48")
	firstWeights(t, in("scenes"), in("w.safetensors"))
	return in
}

// firstWeights writes a model with the vocabulary of a folder of tars: the smallest one that has every part. A step of
// training costs what it has of operations, and the tests ask for the same weights, not for good ones.
func firstWeights(t *testing.T, tars, path string) {
	t.Helper()
	data, _, err := dataset.Read(t.Context(), []string{tars}, 0)
	must.Do(t, err)
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer w.Close()
	vocab := must.Get(vocabulary("", data, 2000))(t)
	m := must.Get(model.New(t.Context(), w, model.Config{
		ImageSize: 32, PatchSize: 16, VisionDim: 32, VisionDepth: 1, VisionHeads: 2,
		TextHidden: 32, TextLayers: 2, FusionLayer: 1, TextHeads: 2, TextIntermediate: 64,
		VocabSize: len(vocab), MaxPositions: 32, EmbedDim: 16, TextTokens: 20,
	}, 3))(t)
	defer m.Free()
	m.Vocab = vocab
	must.Do(t, m.Save(t.Context(), path))
}

// TestSameRecordsHoweverTheStagesRun compares runs with the same seed, which give the same records and the same
// weights. Two runs share one process. Another has every stage in a process of its own beside a broker in another.
// One of the two computes neighbours and clusters by tiles on the device.
func TestSameRecordsHoweverTheStagesRun(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	t.Setenv("NEIGHBORS_SCOPE", "lane")
	t.Setenv("SEGMENTS_ROOT", in("segments"))

	var first map[string]string
	for namespace, engine := range map[string]string{"one": "cpu", "two": "device"} {
		t.Setenv("NAMESPACE", namespace)
		t.Setenv("CHECKPOINT_DIR", in(namespace))
		mustCommand(t, "produce", in("scenes"), "--final")
		upWith(t, engine)
		compare(t, "a second run", &first, outcome(t, namespace, in(namespace)))
	}

	t.Setenv("NAMESPACE", "five")
	t.Setenv("CHECKPOINT_DIR", in("five"))
	mustCommand(t, "produce", in("scenes"), "--final")
	var others []*process
	for _, name := range []string{"encoder", "indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	trainer := start(t, "trainer")
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range others {
		p.stop(t)
	}
	compare(t, "five processes", &first, outcome(t, "five", in("five")))
}

// compare remembers the first outcome and compares the others with it.
func compare(t *testing.T, what string, first *map[string]string, got map[string]string) {
	t.Helper()
	if *first == nil {
		*first = got
		return
	}
	for name, want := range *first {
		if got[name] != want {
			t.Errorf("%s: %s is %s, want %s", what, name, got[name], want)
		}
	}
}

// TestUpRefusesMissingWeights starts without weights. The error names the setting, and the process does not go on.
func TestUpRefusesMissingWeights(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"LANES": "2", "BUCKET_ROOTS": "file://" + dir, "LOG_LEVEL": "error", "CHECKPOINT_DIR": dir, "KAFKA_BROKERS": "", "NAMESPACE": "",
		"ENCODER_CHECKPOINT": "/nowhere", "COND_CHECKPOINT": "/nowhere", "TRAIN_INIT": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	_, err := command(t, "up", "--addr", "127.0.0.1:0", "--data", dir)
	if err == nil || !strings.Contains(err.Error(), `is "/nowhere"`) {
		t.Errorf("got %v, want an error that names the setting and its value", err)
	}
}

// upWith runs all stages as `pairstream up` does, with an engine that computes neighbours and clusters.
func upWith(t *testing.T, engine string) {
	t.Helper()
	p := must.Get(config.Parse[pipeline.Settings](config.Environ()))(t)
	p.Indexer.Engine = engine
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	log, closeLog, err := pipeline.OpenLog(t.Context(), rt, p.Stream, "", "")
	must.Do(t, err)
	must.Do(t, pipeline.Run(t.Context(), log, rt, p, pipeline.NewStages(), false))
	must.Do(t, closeLog())
}
