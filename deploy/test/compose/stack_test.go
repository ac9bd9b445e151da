//go:build compose

package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
)

const (
	composeFile = "../../compose.yaml"
	lanes       = 2
	epochs      = 4
	kafkaPort   = "29192" // not the default, so that a stack of the user's is left alone
)

// stack is a compose project of its own, with its own volumes.
type stack struct {
	t   *testing.T
	env []string
}

// settings make a run that takes a minute or two on two cores.
func settings(data string) []string {
	return append(os.Environ(),
		"COMPOSE_PROJECT_NAME=pairstream-test", "DATA="+data, "KAFKA_PORT="+kafkaPort, "LANES="+strconv.Itoa(lanes),
		"VERSION=test", "GROUP_SIZE=400", "EPOCHS="+strconv.Itoa(epochs), "BATCH_SIZE=16", "QUEUE_SIZE=128", "SEARCH_SPACE=64", "BOOTSTRAP_STEPS=20",
		"DOCKER_BUILDKIT="+os.Getenv("DOCKER_BUILDKIT"))
}

func newStack(t *testing.T, data string) *stack {
	s := &stack{t, settings(data)}
	s.down() // what a test that was killed left behind
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.try("logs", "--tail", "40", "--no-color") // for reading only
			t.Logf("the end of every log:\n%s", out)
		}
		s.down()
	})
	return s
}

func (s *stack) down() {
	if out, err := s.try("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "20"); err != nil {
		s.t.Errorf("tearing down: %v\n%s", err, out)
	}
}

func (s *stack) try(args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"compose", "--file", composeFile}, args...)...)
	cmd.Env = s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (s *stack) run(args ...string) string {
	s.t.Helper()
	started := time.Now()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("docker compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	s.t.Logf("docker compose %s: %v", strings.Join(args, " "), time.Since(started).Round(time.Second))
	return out
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// containers are the ids of a service's running containers.
func (s *stack) containers(service string) []string {
	s.t.Helper()
	return strings.Fields(s.run("ps", "--quiet", "--status", "running", service))
}

// kill ends one container's process as a crash would.
func (s *stack) kill(service string) {
	s.t.Helper()
	all := s.containers(service)
	if len(all) == 0 {
		s.t.Fatalf("%s is not running", service)
	}
	pid, err := strconv.Atoi(docker(s.t, "inspect", "--format", "{{.State.Pid}}", all[0]))
	if err != nil || pid <= 1 {
		s.t.Fatalf("process of %s: %d, %v", service, pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("killing %s: %v", service, err)
	}
	s.t.Logf("killed %s", service)
}

// metrics are what a container reports, as text.
func (s *stack) metrics(container string) (string, error) {
	address := docker(s.t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+address+":9090/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}

// connect reaches the stack's Kafka from the host.
func (s *stack) connect() *stream.Log {
	s.t.Helper()
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{"localhost:" + kafkaPort}, lanes
	log, err := stream.Connect(s.t.Context(), cfg, stream.Options{Logger: slog.New(slog.NewTextHandler(s.t.Output(), nil))})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(log.Close)
	return log
}

// eventually polls until done reports true. The limit is no promise: it ends a test that hangs.
func eventually(t *testing.T, what string, done func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	started := time.Now()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(time.Second):
		}
	}
	t.Logf("%s: after %v", what, time.Since(started).Round(time.Second))
}

func shards(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PAIRSTREAM_FLICKR")
	if dir == "" {
		dir = "../../../../shared/data/flickr8k-mini"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if tars, _ := filepath.Glob(filepath.Join(dir, "*.tar")); len(tars) == 0 {
		t.Fatalf("no shards in %s: set PAIRSTREAM_FLICKR to a folder of WebDataset tars", dir)
	}
	return dir
}
