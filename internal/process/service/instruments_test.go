package service

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func testRuntime() Runtime { return NewRuntime(slog.New(slog.DiscardHandler)) }

// get asks a process for a page.
func get(t *testing.T, p Process, rt Runtime, path string) (int, string) {
	t.Helper()
	p.HTTPAddr = "127.0.0.1:0"
	s := must.Get(newHTTPServer(p, rt, DefaultHTTPLimits))(t)
	defer s.close()
	answer := httptest.NewRecorder()
	s.servers[0].Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	text := must.Get(io.ReadAll(answer.Body))(t)
	return answer.Code, string(text)
}

func newInstruments(t *testing.T, rt Runtime, name string) *Instruments {
	t.Helper()
	s := must.Get(rt.NewInstruments(name, new(stream.Counters)))(t)
	return s
}

// A process is ready when each of its stages has its model and owns lanes, and no longer when one of them owns none.
func TestReady(t *testing.T) {
	rt := testRuntime()
	expect := func(status int, text string) {
		t.Helper()
		if got, body := get(t, Process{}, rt, "/readyz"); got != status || !strings.Contains(body, text) {
			t.Errorf("/readyz answers %d %q, want %d and %q", got, body, status, text)
		}
		if got, _ := get(t, Process{}, rt, "/healthz"); got != http.StatusOK {
			t.Errorf("/healthz answers %d: a process that is not ready is alive all the same", got)
		}
	}
	expect(http.StatusServiceUnavailable, "no stage has begun")
	encoder, trainer := newInstruments(t, rt, "encoder"), newInstruments(t, rt, "trainer")
	expect(http.StatusServiceUnavailable, "not ready: encoder has not loaded its model, trainer has not loaded its model")
	encoder.Loaded()
	encoder.Counters().Lanes.Store(2)
	expect(http.StatusServiceUnavailable, "not ready: trainer has not loaded its model\n")
	trainer.Loaded()
	expect(http.StatusServiceUnavailable, "not ready: trainer owns no lanes\n")
	trainer.Counters().Lanes.Store(4)
	expect(http.StatusOK, "ready\n")
	encoder.Counters().Lanes.Store(0)
	expect(http.StatusServiceUnavailable, "not ready: encoder owns no lanes\n")
}

func TestProfilesAreServedOnlyWhenAsked(t *testing.T) {
	for on, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		if got, _ := get(t, Process{Pprof: on}, testRuntime(), "/debug/pprof/goroutine?debug=1"); got != want {
			t.Errorf("with HTTP_PPROF=%v: status %d, want %d", on, got, want)
		}
	}
}

func TestMetricsOfStages(t *testing.T) {
	rt := testRuntime()
	encoder := newInstruments(t, rt, "encoder")
	newInstruments(t, rt, "indexer")
	encoder.PairsIn(3)
	encoder.PairsOut(2)
	encoder.Counters().Lanes.Store(4)
	encoder.UseDevice(func() time.Duration { return 7 * time.Second })
	encoder.Batch()()
	status, text := get(t, Process{}, rt, "/metrics")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	for _, line := range []string{
		`pairstream_stage_pairs_in_total{stage="encoder"} 3`, `pairstream_stage_pairs_in_total{stage="indexer"} 0`,
		`pairstream_stage_pairs_out_total{stage="encoder"} 2`, `pairstream_stage_lanes{stage="encoder"} 4`,
		`pairstream_stage_batch_seconds_count{stage="encoder"} 1`, `pairstream_stage_batch_seconds_count{stage="indexer"} 0`,
		`pairstream_stage_device_busy_seconds_total{stage="encoder"} 7`,
		`pairstream_stage_device_waiting_seconds_total{stage="encoder"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if _, err := rt.NewInstruments("encoder", nil); err == nil {
		t.Error("two stages of one name were accepted")
	}
}

// Waiting is what is left of the time since the model was loaded, and never goes back.
func TestWaitingTime(t *testing.T) {
	s := newInstruments(t, testRuntime(), "trainer")
	busy := time.Duration(0)
	s.UseDevice(func() time.Duration { return busy })
	s.loaded.Store(time.Now().Add(-time.Hour).UnixNano())
	first := s.waiting()
	if first < time.Hour {
		t.Errorf("waited for %v of an idle hour", first)
	}
	busy = time.Minute
	if second := s.waiting(); second < first {
		t.Errorf("waiting went back from %v to %v", first, second)
	}
}

func TestBusyTime(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	var b busyTime
	b.begin(at(0))
	b.begin(at(1))
	b.end(at(2))
	if got := b.until(at(3)); got != 3*time.Second {
		t.Errorf("%v while one of two goes on, want 3s", got)
	}
	b.end(at(4))
	b.begin(at(10))
	b.end(at(11))
	if got := b.until(at(20)); got != 5*time.Second {
		t.Errorf("%v, want 4s together and 1s alone", got)
	}
}

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"text": `msg=hello stage=encoder`, "json": `"msg":"hello","stage":"encoder"}`} {
		var b strings.Builder
		Process{LogLevel: "info", LogFormat: format}.NewLogger(&b).Info("hello", "stage", "encoder")
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q, want %q in it", format, b.String(), want)
		}
	}
}

func TestRuntimeNamesItsBuild(t *testing.T) {
	families := must.Get(NewRuntime(slog.New(slog.DiscardHandler)).Registry.Gather())(t)
	labels := map[string]string{}
	for _, f := range families {
		if f.GetName() == "pairstream_build_info" {
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
		}
	}
	want := map[string]string{"version": version.String(), "commit": version.Commit(), "goversion": runtime.Version()}
	if !maps.Equal(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
}
