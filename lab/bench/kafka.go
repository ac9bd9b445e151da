package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
)

const (
	kafkaFolder = "deploy/kafka" // what to resolve, and how the broker logs
	kafkaStart  = 2 * time.Minute
)

// kafkaJars returns the folder of the jars of an Apache Kafka server. `make bench` and `make test-kafka` fill it.
func kafkaJars() (string, error) {
	pom, err := os.ReadFile(filepath.Join(kafkaFolder, "pom.xml"))
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(pom)
	return filepath.Join("bin", "kafka", hex.EncodeToString(hash[:8])), nil
}

// kafkaVersion reads the version from the name of a jar.
func kafkaVersion(jars string) (string, error) {
	found, err := filepath.Glob(filepath.Join(jars, "kafka-clients-*.jar"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no jars of Apache Kafka in %s: `make bench` resolves them", jars)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "kafka-clients-"), ".jar"), nil
}

// kafkaWorker sends pairs through the same stages as plumbingWorker, over one broker of Apache Kafka. The broker is a
// process of its own on the same cores. It lives for all turns, so that its code is compiled. Every turn has topics of
// its own.
type kafkaWorker struct {
	job    job
	broker *exec.Cmd
	addr   string
	turn   int
	last   *stream.Log
}

func newKafkaWorker(ctx context.Context, j job) (worker, error) {
	w := &kafkaWorker{job: j}
	if err := w.begin(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return worker{"run": w.run, "check": w.check, atEnd: ending(w.close)}, nil
}

// begin formats a folder, starts the broker in it, and waits until it answers.
func (w *kafkaWorker) begin(ctx context.Context) error {
	client, err := freeAddress()
	if err != nil {
		return err
	}
	controller, err := freeAddress()
	if err != nil {
		return err
	}
	w.addr = client
	settings := w.job.path("server.properties")
	if err := os.WriteFile(settings, []byte(kafkaSettings(client, controller, w.job.path("kafka"))), 0o600); err != nil {
		return err
	}
	// The arguments are those of Kafka's own script.
	java := []string{
		"-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
		"-Djava.awt.headless=true", "-Dlog4j2.configurationFile=" + filepath.Join(kafkaFolder, "log4j2.properties"), "-cp", filepath.Join(w.job.Server, "*"),
	}
	format := exec.CommandContext(ctx, "java", append(java, "kafka.tools.StorageTool", "format", "--cluster-id", "cGFpcnN0cmVhbS1iZW5jaA", "--config", settings)...)
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("formatting Kafka's folder: %w: %s", err, out)
	}
	log, err := os.Create(w.job.path("kafka.log"))
	if err != nil {
		return err
	}
	w.broker = exec.CommandContext(ctx, "java", append(java, "kafka.Kafka", settings)...)
	w.broker.Stdout, w.broker.Stderr = log, log
	w.broker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(w.broker.Start(), log.Close()); err != nil {
		return fmt.Errorf("starting Kafka: %w", err)
	}
	return w.await(ctx)
}

// await makes the first topics when the broker answers.
func (w *kafkaWorker) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	for {
		err := w.renew(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for Kafka: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// kafkaSettings are Kafka's defaults, but for what one broker on a small machine needs. It flushes files when the
// system does.
func kafkaSettings(client, controller, folder string) string {
	settings := map[string]string{
		"process.roles": "broker,controller", "node.id": "0", "controller.quorum.voters": "0@" + controller, "log.dirs": folder,
		"listeners":                      "CLIENT://" + client + ",CONTROLLER://" + controller,
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "CLIENT", "controller.listener.names": "CONTROLLER",
		"default.replication.factor": "1", "min.insync.replicas": "1", "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3",
		"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
		"message.max.bytes": strconv.Itoa(stream.DefaultConfig().MaxMessageBytes), "group.initial.rebalance.delay.ms": "0",
		"log.segment.delete.delay.ms": "0", // a turn would else run beside the files of the one before
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s=%s\n", key, settings[key])
	}
	return b.String()
}

// freeAddress finds a port that nobody has.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// renew removes the topics of the last turn, and makes others.
func (w *kafkaWorker) renew(ctx context.Context) error {
	if w.last != nil {
		w.last.Close()
		w.last = nil
		if err := kafka.DeleteTopics(ctx, []string{w.addr}, namespace(w.turn)); err != nil {
			return err
		}
	}
	w.turn++
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.Namespace = []string{w.addr}, plumbingLanes, namespace(w.turn)
	l, err := stream.Connect(ctx, cfg, stream.Options{})
	if err != nil {
		return err
	}
	w.last = l
	return l.EnsureTopics(ctx)
}

func namespace(turn int) string { return fmt.Sprint("turn-", turn) }

func (w *kafkaWorker) check(ctx context.Context, _ *answer) error {
	return passedOn(ctx, w.last, w.job.option("pairs"))
}

func (w *kafkaWorker) run(ctx context.Context, a *answer) error {
	if err := w.renew(ctx); err != nil {
		return err
	}
	before, err := processSeconds(w.broker.Process.Pid)
	if err != nil {
		return err
	}
	if err := passOn(ctx, w.last, w.job.option("pairs"), a); err != nil {
		return err
	}
	after, err := processSeconds(w.broker.Process.Pid)
	a.CPUSeconds = after - before
	return err
}

// processSeconds returns the processor time of another process.
func processSeconds(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err, err2) // Linux counts in hundredths for everyone
}

// close ends the broker.
func (w *kafkaWorker) close() error {
	if w.last != nil {
		w.last.Close()
	}
	if w.broker == nil || w.broker.Process == nil {
		return nil
	}
	err := w.broker.Process.Kill()
	_ = w.broker.Wait() // says that it was killed
	return errors.Join(err, os.RemoveAll(w.job.path("kafka")))
}
