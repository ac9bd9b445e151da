package rules

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const dashboardFile = "../../grafana/dashboards/pairstream.json"

type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Type    string `json:"type"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
		GridPos struct{ H, W, X, Y int } `json:"gridPos"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(readFile(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// variables are what Grafana puts in place of its own names.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$stage", ".*")

func TestDashboardQueriesParse(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "pairstream" || len(d.Panels) == 0 {
		t.Fatalf("dashboard %q with %d panels", d.UID, len(d.Panels))
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: its id is not its own, or it is out of the grid", p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, q := range p.Targets {
			if _, err := promQL.ParseExpr(variables.Replace(q.Expr)); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
		}
	}
}

var (
	metricName = regexp.MustCompile(`pairstream_[a-z_]+`)
	histogram  = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// sources is all Go text that may register a metric.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"../../../internal", "../../../services"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				b.WriteString(readFile(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// A metric is registered under its whole name, or under what follows a common prefix such as pairstream_stream_.
func TestMetricsExist(t *testing.T) {
	code := sources(t)
	asked := metricName.FindAllString(readFile(t, rulesFile)+readFile(t, dashboardFile), -1)
	seen := map[string]bool{}
	for _, name := range asked {
		name = histogram.ReplaceAllString(name, "")
		if seen[name] {
			continue
		}
		seen[name] = true
		_, area, _ := strings.Cut(name, "_")
		_, rest, _ := strings.Cut(area, "_")
		if !strings.Contains(code, `"`+name+`"`) && !strings.Contains(code, `"`+rest+`"`) {
			t.Errorf("%s is not a metric of pairstream", name)
		}
	}
}
