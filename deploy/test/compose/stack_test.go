//go:build compose

package compose

import (
	"archive/tar"
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
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/log/stream"
)

const (
	composeFile = "../../compose.yaml"
	lanes       = 2
	epochs      = 2
	version     = "v0.0.0-test"
	kafkaPort   = "29192" // not the defaults, so that a user's stack is left alone, and a demo's console
	consolePort = "28090"
)

// stack is a compose project of its own, with its own volumes.
type stack struct {
	t   *testing.T
	env []string
}

// settings returns settings for a run of a minute or two on two cores.
func settings(data string) []string {
	return append(os.Environ(),
		"COMPOSE_PROJECT_NAME=pairstream-test", "DATA="+data, "KAFKA_PORT="+kafkaPort, "CONSOLE_PORT="+consolePort, "LANES="+strconv.Itoa(lanes),
		"VERSION="+version, "REVISION=1234567", "GROUP_SIZE=400", "EPOCHS="+strconv.Itoa(epochs), "BATCH_SIZE=16", "STEP_BATCHES=1", "QUEUE_SIZE=128", "SEARCH_SPACE=64", "BOOTSTRAP_STEPS=20",
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

// asWritten runs a command of docs/deploy.md, which must contain it to the letter.
func (s *stack) asWritten(args string) string {
	s.t.Helper()
	line := "docker compose -f deploy/compose.yaml " + args
	page, err := os.ReadFile(filepath.Join(checkout(s.t), "docs/deploy.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(line) + `(?: +#.*)?$`).Match(page) {
		s.t.Errorf("docs/deploy.md has no line %q", line)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = checkout(s.t), s.env
	started := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	s.t.Logf("%s: %v", line, time.Since(started).Round(time.Second))
	return string(out)
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// containers returns the ids of a service's running containers.
func (s *stack) containers(service string) []string {
	s.t.Helper()
	out, err := s.try("ps", "--quiet", "--status", "running", service) // too often to be worth a line in the log
	if err != nil {
		s.t.Fatalf("looking for containers of %s: %v\n%s", service, err, out)
	}
	return strings.Fields(out)
}

// container returns the id of one of a service's running containers.
func (s *stack) container(service string) string {
	s.t.Helper()
	all := s.containers(service)
	if len(all) == 0 {
		s.t.Fatalf("%s is not running", service)
	}
	return all[0]
}

// kill ends the process of one container as a crash would, and returns the container's id.
func (s *stack) kill(service string) string {
	s.t.Helper()
	id := s.container(service)
	pid, err := strconv.Atoi(docker(s.t, "inspect", "--format", "{{.State.Pid}}", id))
	if err != nil || pid <= 1 {
		s.t.Fatalf("process of %s: %d, %v", service, pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("killing %s: %v", service, err)
	}
	s.t.Logf("killed %s", service)
	return id
}

// address returns where a container answers HTTP.
func address(t *testing.T, container string) string {
	t.Helper()
	return "http://" + docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container) + ":9090"
}

// get asks for a page. For an answer that is not 200 it returns an error with the page's text.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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
		err = fmt.Errorf("%s: %s", response.Status, text)
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

// eventually polls until done reports true. The limit is not a promise: it ends a test that hangs.
func eventually(t *testing.T, what string, done func(ctx context.Context) bool) {
	t.Helper()
	eventuallyEvery(t, time.Second, what, done)
}

func eventuallyEvery(t *testing.T, pause time.Duration, what string, done func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	started := time.Now()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(pause):
		}
	}
	t.Logf("%s: after %v", what, time.Since(started).Round(time.Second))
}

// checkout returns the folder of the sources, where Go finds what this machine has compiled of them.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shards returns a folder with a copy of the photographs in the folder that PAIRSTREAM_FLICKR names, or else with
// generated scenes. It adds one pair whose image is broken.
func shards(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	if from := os.Getenv("PAIRSTREAM_FLICKR"); from != "" {
		copyShards(t, to, from)
	} else {
		o := scenes.Defaults()
		o.Scenes, o.Captions, o.Side, o.Format = 1750, 2, 128, "jpeg"
		if err := scenes.WriteDir(t.Context(), to, o, nil); err != nil {
			t.Fatal(err)
		}
	}
	addBrokenPair(t, to)
	// The containers run as another user.
	if err := errors.Join(os.Chmod(filepath.Dir(to), 0o755), os.Chmod(to, 0o755)); err != nil {
		t.Fatal(err)
	}
	return to
}

func copyShards(t *testing.T, to, from string) {
	t.Helper()
	tars, err := filepath.Glob(filepath.Join(from, "*.tar"))
	if err != nil || len(tars) == 0 {
		t.Fatalf("no shards in %s: let PAIRSTREAM_FLICKR name a folder of WebDataset tars (%v)", from, err)
	}
	for _, path := range tars {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func addBrokenPair(t *testing.T, to string) {
	t.Helper()
	var broken bytes.Buffer
	w := tar.NewWriter(&broken)
	for _, entry := range []struct{ name, content string }{{"broken.jpg", "\xff\xd8\xff no picture"}, {"broken.txt", "a picture of nothing"}} {
		if err := w.WriteHeader(&tar.Header{Name: entry.name, Mode: 0o644, Size: int64(len(entry.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, entry.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(filepath.Join(to, "broken.tar"), broken.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}
