package rules

import (
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

const rulesFile = "../../prometheus/rules.yml"

var promQL = parser.NewParser(parser.Options{})

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, problems := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range problems {
		t.Error(err)
	}
	if len(problems) > 0 || len(groups.Groups) != 1 {
		t.Fatalf("%d groups, want 1", len(groups.Groups))
	}
	return groups.Groups[0].Rules
}

// Every alert says what it means, and which document says what to do.
func TestRulesAreComplete(t *testing.T) {
	manual := strings.ToLower(readFile(t, "../../../docs/operations.md"))
	for _, r := range readRules(t) {
		if _, anchor, ok := strings.Cut(r.Annotations["runbook_url"], "docs/operations.md#"); !ok || !strings.Contains(manual, "### "+anchor+"\n") {
			t.Errorf("%s: docs/operations.md has no section for %q", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Labels["severity"] != "warning" && r.Labels["severity"] != "critical" {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		for _, a := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s: no %s", r.Alert, a)
			}
		}
	}
}

// healthy is two hours of a healthy run, with a sample each minute.
const healthy = `
	pairstream_stream_lag_records{stage="encoder",instance="a"} 0+0x60 500+0x60
	pairstream_stream_stalled_lanes{stage="encoder",instance="a"} 0+0x60 1 0+0x59
	pairstream_stream_records_in_total{stage="encoder",topic="pairs",instance="a"} 0+6000x120
	pairstream_stream_dead_letters_total{stage="encoder",reason="image missing",instance="a"} 0+0x120
	pairstream_stream_trimmed_records_total{topic="pairs",instance="a"} 0+0x120
	pairstream_stream_lane_restarts_total{stage="encoder",instance="a"} 0+0x60 1+0x60
	pairstream_stage_device_busy_seconds_total{stage="encoder",instance="a"} 0+40x120
	pairstream_stage_device_waiting_seconds_total{stage="encoder",instance="a"} 0+20x120
`

// firing holds the series, in place of those of the healthy run, on which alerts must fire at the end.
var firing = map[string]struct{ series, alert string }{
	"no progress": {`
		pairstream_stream_stalled_lanes{stage="encoder",instance="a"} 0+0x110 2+0x10`, "PairstreamStageStalled"},
	"parked lanes": {`
		pairstream_stream_parked_lanes{stage="encoder",instance="a"} 0+0x110 1+0x10`, "PairstreamLanesParked"},
	"waiting lanes": {`
		pairstream_stream_waiting_lanes{stage="grouper",instance="a"} 0+0x80 1+0x40`, "PairstreamLanesWaiting"},
	"growing lag": {`
		pairstream_stream_lag_records{stage="encoder",instance="a"} 9000+100x120`, "PairstreamLagGrowing"},
	"one dead letter": {`
		pairstream_stream_dead_letters_total{stage="encoder",reason="image missing",instance="a"} 0+0x113 1+0x7`, "PairstreamDeadLetters"},
	"two per cent dead letters": {
		`
		pairstream_stream_dead_letters_total{stage="encoder",reason="image missing",instance="a"} 0+120x120`,
		"PairstreamDeadLetters PairstreamManyDeadLetters",
	},
	"idle device": {`
		pairstream_stage_device_busy_seconds_total{stage="encoder",instance="a"} 0+6x120
		pairstream_stage_device_waiting_seconds_total{stage="encoder",instance="a"} 0+54x120`, "PairstreamDeviceIdle"},
	"retention": {`
		pairstream_stream_trimmed_records_total{topic="pairs",instance="a"} 0+0x100 5+0x20`, "PairstreamRecordsTrimmed"},
	"restarts": {`
		pairstream_stream_lane_restarts_total{stage="encoder",instance="a"} 0+1x120`, "PairstreamLaneRestarts"},
	"healthy": {"", ""},
	"idle without input": {`
		pairstream_stream_lag_records{stage="encoder",instance="a"} 0+0x120
		pairstream_stage_device_busy_seconds_total{stage="encoder",instance="a"} 0+0x120
		pairstream_stage_device_waiting_seconds_total{stage="encoder",instance="a"} 0+60x120`, ""},
	"catching up": {`
		pairstream_stream_lag_records{stage="encoder",instance="a"} 900000-100x120`, ""},
}

// load replaces series of the healthy run with the given series of the same name.
func load(series string) string {
	name := func(line string) string { before, _, _ := strings.Cut(strings.TrimSpace(line), "{"); return before }
	lines := []string{"load 1m"}
	for line := range strings.Lines(healthy) {
		if name(line) != "" && !strings.Contains(series, name(line)+"{") {
			lines = append(lines, "\t"+strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(series) {
		if name(line) != "" {
			lines = append(lines, "\t"+strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func TestAlertsFire(t *testing.T) {
	for name, test := range firing {
		t.Run(name, func(t *testing.T) {
			storage := promqltest.LoadedStorage(t, load(test.series))
			defer storage.Close()
			engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
			query := rules.EngineQueryFunc(engine, storage)
			var fired []string
			for _, r := range readRules(t) {
				if fires(t, r, query) {
					fired = append(fired, r.Alert)
				}
			}
			if got := strings.Join(fired, " "); got != test.alert {
				t.Errorf("fires %q, want %q", got, test.alert)
			}
		})
	}
}

// fires evaluates the rule each minute of the two hours, as Prometheus does, and reports whether it fires at the end.
func fires(t *testing.T, r rulefmt.Rule, query rules.QueryFunc) bool {
	t.Helper()
	expr, err := promQL.ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	for minute := range 121 {
		at := time.Unix(int64(minute)*60, 0)
		if _, err := alert.Eval(t.Context(), 0, at, query, &url.URL{}, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
	}
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			if text := active.Annotations.String(); strings.Contains(text, "<error") {
				t.Errorf("%s: %s", r.Alert, text)
			}
			return true
		}
	}
	return false
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
