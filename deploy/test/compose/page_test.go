//go:build compose

package compose

import (
	"context"
	"debug/elf"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const image = "pairstream:" + version

var (
	stepBegins = regexp.MustCompile(`^#(\d+) \[[^\]]*\] (.*)`)
	stepMounts = regexp.MustCompile(`--mount=\S+ +`)
	stepEnds   = regexp.MustCompile(`^#(\d+) DONE (\S+)s$`)
)

// reportSteps prints the steps of a build that took a second or longer.
func (s *stack) reportSteps(log string) {
	s.t.Helper()
	names := map[string]string{}
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if m := stepBegins.FindStringSubmatch(line); m != nil && names[m[1]] == "" {
			names[m[1]] = m[2]
		}
		m := stepEnds.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if took, err := strconv.ParseFloat(m[2], 64); err == nil && took >= 1 {
			s.t.Logf("MEASURED step of the build: %5.1f s  %.70s", took, stepMounts.ReplaceAllString(names[m[1]], ""))
		}
	}
}

// The image runs as nobody in particular, says what it is and whether it is well, and has no shell. Its programs that
// need no tensors are static.
func checkImage(t *testing.T) {
	t.Helper()
	var found []struct {
		Size   int64
		Config struct {
			User        string
			Labels      map[string]string
			Healthcheck *struct{ Test []string }
		}
	}
	if err := json.Unmarshal([]byte(docker(t, "image", "inspect", image)), &found); err != nil || len(found) != 1 {
		t.Fatalf("looking at the image: %d found, %v", len(found), err)
	}
	config := found[0].Config
	if user, _, _ := strings.Cut(config.User, ":"); user == "" || user == "0" || user == "root" {
		t.Errorf("the image runs as %q", config.User)
	}
	if config.Healthcheck == nil || !slices.Contains(config.Healthcheck.Test, "healthcheck") {
		t.Errorf("the image's health check is %v", config.Healthcheck)
	}
	for name, want := range map[string]string{"title": "pairstream", "version": version, "revision": "1234567", "licenses": "Apache-2.0"} {
		if got := config.Labels["org.opencontainers.image."+name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	for _, program := range append([]string{"pairstream", "pairstream-tensors"}, stages...) {
		if out := docker(t, "run", "--rm", "--read-only", "--network", "none", image, program, "--version"); !strings.Contains(out, version) {
			t.Errorf("%s says it is %q", program, out)
		}
	}
	for _, shell := range []string{"sh", "bash"} {
		if exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network", "none", image, shell, "-c", "true").Run() == nil {
			t.Errorf("there is a %s in the image", shell)
		}
	}
	checkStatic(t, "pairstream")
	t.Logf("MEASURED image: %d MB", found[0].Size/1_000_000)
}

// checkStatic looks at programs of the image from outside. A static one names no loader.
func checkStatic(t *testing.T, programs ...string) {
	t.Helper()
	container := docker(t, "create", image)
	defer docker(t, "rm", container)
	for _, name := range programs {
		path := filepath.Join(t.TempDir(), name)
		docker(t, "cp", container+":/usr/local/bin/"+name, path)
		program, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range program.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s needs shared libraries", name)
			}
		}
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	}
}

// awaitReady waits until every stage is ready, and reports how long that took from the start of its container.
func (s *stack) awaitReady() {
	s.t.Helper()
	type waiting struct {
		url     string
		started time.Time
	}
	open := map[string]waiting{}
	for _, stage := range stages {
		id := s.container(stage)
		started, err := time.Parse(time.RFC3339Nano, docker(s.t, "inspect", "--format", "{{.State.StartedAt}}", id))
		if err != nil {
			s.t.Fatal(err)
		}
		open[stage] = waiting{address(s.t, id) + "/readyz", started}
	}
	eventuallyEvery(s.t, 100*time.Millisecond, "every stage to be ready", func(ctx context.Context) bool {
		for stage, w := range open {
			if _, err := get(ctx, w.url); err == nil {
				s.t.Logf("MEASURED start-up of %s: %.1f s", stage, time.Since(w.started).Seconds())
				delete(open, stage)
			}
		}
		return len(open) == 0
	})
}

// awaitHealthy waits until the engine's own health checks succeed.
func (s *stack) awaitHealthy() {
	s.t.Helper()
	eventuallyEvery(s.t, time.Second, "every container to be healthy", func(context.Context) bool {
		for _, stage := range stages {
			for _, id := range s.containers(stage) {
				if docker(s.t, "inspect", "--format", "{{.State.Health.Status}}", id) != "healthy" {
					return false
				}
			}
		}
		return true
	})
}

// reportMemory prints how much memory the services take while there is nothing to do.
func (s *stack) reportMemory() {
	s.t.Helper()
	for _, stage := range stages {
		text, err := get(s.t.Context(), address(s.t, s.container(stage))+"/metrics")
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Logf("MEASURED idle memory of %s: %.0f MB", stage, value(s.t, text, "process_resident_memory_bytes")/1e6)
	}
	usage := docker(s.t, "stats", "--no-stream", "--format", "{{.MemUsage}}", s.container("kafka"))
	s.t.Logf("MEASURED idle memory of kafka: %s", usage)
}

// value returns the value of a metric that has one series.
func value(t *testing.T, text, name string) float64 {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatalf("no metric %s in\n%s", name, text)
	}
	v, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shareLanes reports whether so many containers of a stage run and each lane has one owner among them. A container
// without a lane is alive, but not ready.
func (s *stack) shareLanes(stage string, n int) bool {
	s.t.Helper()
	all := s.containers(stage)
	if len(all) != n {
		return false
	}
	owned := 0
	for _, id := range all {
		url := address(s.t, id)
		text, err := get(s.t.Context(), url+"/metrics")
		if err != nil {
			return false // it is starting
		}
		own := int(value(s.t, text, "pairstream_stage_lanes"))
		_, err = get(s.t.Context(), url+"/readyz")
		if own > 1 || (own == 0) != (err != nil) {
			return false
		}
		owned += own
	}
	return owned == lanes
}

// everywhere lists the metrics of each service, special those of one. Dead letters have no series before the first one.
var (
	everywhere = []string{
		"pairstream_stage_pairs_in_total", "pairstream_stage_pairs_out_total", "pairstream_stage_batch_seconds_count",
		"pairstream_stage_device_busy_seconds_total", "pairstream_stage_device_waiting_seconds_total", "pairstream_stage_lanes",
		"pairstream_stream_records_in_total", "pairstream_stream_records_out_total", "pairstream_stream_lag_records",
		"pairstream_stream_bytes_in_flight", "pairstream_stream_last_progress_timestamp_seconds",
		"pairstream_stream_stalls_total", "pairstream_stream_stalled_lanes", "process_resident_memory_bytes",
	}
	special = map[string][]string{
		"indexer": {"pairstream_indexer_group_fill_ratio"},
		"trainer": {"pairstream_trainer_loss", "pairstream_trainer_anchors_total", "pairstream_trainer_steps", "pairstream_trainer_learning_rate"},
	}
)

// checkMetrics reads the metrics of every container.
func (s *stack) checkMetrics() {
	s.t.Helper()
	for _, stage := range stages {
		reported := map[string]bool{}
		for _, container := range s.containers(stage) {
			text, err := get(s.t.Context(), address(s.t, container)+"/metrics")
			if err != nil {
				s.t.Errorf("metrics of %s: %v", stage, err)
				continue
			}
			for _, name := range everywhere {
				if !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n"+name+" ") {
					s.t.Errorf("%s does not report %s", stage, name)
				}
			}
			for _, name := range special[stage] {
				reported[name] = reported[name] || strings.Contains(text, "\n"+name+"{") || strings.Contains(text, "\n"+name+" ")
			}
		}
		for _, name := range special[stage] {
			if !reported[name] {
				s.t.Errorf("no container of %s reports %s", stage, name)
			}
		}
	}
}
