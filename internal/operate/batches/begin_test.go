package batches

import (
	"bytes"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPlanKnowsWhatItWasMadeOf changes data, models and files behind a finished plan, by the same names. The command
// says what has changed, and is content again when it is back.
func TestPlanKnowsWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	in, o, environ := setUp(t, 8)
	again := func() (string, error) { return plan(t, o, environ) }

	// A try that encodes nothing is none: the next one may have other settings.
	must.Do(t, os.WriteFile(in("none.safetensors"), []byte("no weights"), 0o644))
	other := maps.Clone(environ)
	other["ENCODER_CHECKPOINT"] = in("none.safetensors")
	wantError(t, "weights that are none", "ENCODER_CHECKPOINT", o, other)
	must.Get(again())(t)

	before := filesIn(t, in("plan"))
	for _, c := range []struct{ name, path, want string }{
		{"a tar of other bytes", in("scenes/00000.tar"), "other data: file://" + in("scenes/00000.tar") + " was \""},
		{"other weights by the same name", in("w.safetensors"), "other files by the same names: COND_CHECKPOINT was \""},
		{"a file of the plan that has changed", in("plan/" + plans.Name(0, 0)), "holds a plan that was complete, and is not any more: " + plans.Name(0, 0) + " has the SHA-256"},
	} {
		raw := must.Get(os.ReadFile(c.path))(t)
		info := must.Get(os.Stat(c.path))(t)
		changed := bytes.Clone(raw)
		changed[len(changed)/2] ^= 1
		must.Do(t, os.WriteFile(c.path, changed, 0o644))
		must.Do(t, os.Chtimes(c.path, time.Time{}, info.ModTime().Add(time.Second)))
		if out, err := again(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--out="+in("plan")) {
			t.Errorf("%s: %q, %v, want %q", c.name, out, err, c.want)
		}
		must.Do(t, os.WriteFile(c.path, raw, 0o644))
		must.Do(t, os.Chtimes(c.path, time.Time{}, info.ModTime()))
	}
	must.Do(t, os.WriteFile(in("scenes/00001.tar"), must.Get(os.ReadFile(in("scenes/00000.tar")))(t), 0o644))
	if _, err := again(); err == nil || !strings.Contains(err.Error(), in("scenes/00001.tar")+" was not there and is") {
		t.Errorf("a tar more: %v", err)
	}
	must.Do(t, os.Remove(in("scenes/00001.tar")))
	must.Do(t, os.Rename(in("plan/"+plans.Name(0, 1)), in("away")))
	if _, err := again(); err == nil || !strings.Contains(err.Error(), plans.Name(0, 1)+": no such file") {
		t.Errorf("a file of the plan that is gone: %v", err)
	}
	must.Do(t, os.Rename(in("away"), in("plan/"+plans.Name(0, 1))))
	if out, err := again(); err != nil || !strings.Contains(out, "is complete") {
		t.Errorf("everything is back: %q, %v", out, err)
	}
	sameFiles(t, filesIn(t, in("plan")), before)
}
