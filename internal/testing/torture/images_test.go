//go:build torture

package torture

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// These constants are the budget of one image, whatever its bytes say.
const (
	maxSeconds = 2.0
	maxRSS     = 512 << 20
)

// itemVariable names the file of the image that a child process decodes.
const itemVariable = "PAIRSTREAM_TORTURE_IMAGE"

func TestMain(m *testing.M) {
	if path := os.Getenv(itemVariable); path != "" {
		fmt.Println(decode(path))
		fmt.Println(peakRSS())
		return
	}
	if dir := os.Getenv(tarVariable); dir != "" {
		fmt.Println(publish(dir))
		fmt.Println(peakRSS())
		return
	}
	os.Exit(m.Run())
}

// decode does with an image what the encoder does, for models of 224 pixels, and returns the outcome.
func decode(path string) string {
	encoded, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	im, err := imaging.DecodeShrunk(encoded, 2*224)
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprintf("decoded to %d x %d", im.W, im.H)
}

func TestTortureImages(t *testing.T) {
	var all worst
	for _, image := range Images() {
		t.Run(image.Name, func(t *testing.T) {
			encoded := image.Encode()
			path := t.TempDir() + "/image"
			must.Do(t, os.WriteFile(path, encoded, 0o600))
			said, seconds, rss := measure(t, itemVariable+"="+path)
			all.add(image.Name, seconds, rss)
			t.Logf("%8d bytes  %5.2f s  %4d MiB  %s", len(encoded), seconds, rss>>20, said)
			if seconds > maxSeconds || rss > maxRSS {
				t.Errorf("%.2f s and %d MiB, want at most %.0f s and %d MiB", seconds, rss>>20, maxSeconds, maxRSS>>20)
			}
			if !strings.HasPrefix(said, "refused: ") && !strings.HasPrefix(said, "decoded ") {
				t.Errorf("the process said %q", said)
			}
		})
	}
	all.record(t, "torture: images")
}

// worst keeps the highest costs of items.
type worst struct {
	items           int
	seconds         float64
	rss             int64
	longest, widest string
}

func (w *worst) add(name string, seconds float64, rss int64) {
	w.items++
	if seconds > w.seconds {
		w.seconds, w.longest = seconds, name
	}
	if rss > w.rss {
		w.rss, w.widest = rss, name
	}
}

func (w *worst) record(t *testing.T, scenario string) {
	t.Helper()
	figures.Record(t, figures.Figures{Scenario: scenario, Broker: "none", Faults: w.items, Note: fmt.Sprintf(
		"at most %.2f s of a processor (%s) and %d MiB (%s)", w.seconds, w.longest, w.rss>>20, w.widest)})
}

// peakRSS returns the largest memory that this process has had. (The value of wait4 includes that of the process that
// began it.)
func peakRSS() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, _, _ := strings.Cut(rest, "kB")
	return strings.TrimSpace(kilobytes)
}

// measure runs this binary with a variable set. It returns the output, the processor time and the peak memory.
func measure(t *testing.T, variable string) (said string, seconds float64, rss int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("with %s: %v\n%s", variable, err, out)
	}
	said, peak, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	kilobytes, err := strconv.ParseInt(peak, 10, 64)
	if err != nil {
		t.Errorf("the process said %q", out)
	}
	return said, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), kilobytes << 10
}
