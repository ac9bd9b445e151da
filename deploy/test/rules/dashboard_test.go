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

// variables replaces Grafana's own names with values, as Grafana does.
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

// These patterns match the names under which code registers metrics. A name is whole, or follows a prefix that the same
// package declares.
var (
	prefixLiteral = regexp.MustCompile(`"(pairstream_[a-z_]*_)"`)
	nameLiteral   = regexp.MustCompile(`"([a-z][a-z_]*)"`)
)

// registered lists the metrics that the code of the repository can register.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	packages := map[string]*strings.Builder{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			dir := filepath.Dir(path)
			if packages[dir] == nil {
				packages[dir] = &strings.Builder{}
			}
			packages[dir].WriteString(readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, code := range packages {
		for _, name := range nameLiteral.FindAllStringSubmatch(code.String(), -1) {
			found[name[1]] = true
			for _, prefix := range prefixLiteral.FindAllStringSubmatch(code.String(), -1) {
				found[prefix[1]+name[1]] = true
			}
		}
	}
	return found
}

func TestMetricsExist(t *testing.T) {
	code := registered(t)
	if code["pairstream_stream_loss"] || !code["pairstream_trainer_loss"] {
		t.Error("a prefix of one package counts for another, or for none")
	}
	for _, name := range metricName.FindAllString(readFile(t, rulesFile)+readFile(t, dashboardFile), -1) {
		if name = histogram.ReplaceAllString(name, ""); !code[name] {
			t.Errorf("%s is not a metric of pairstream", name)
			code[name] = true // said once
		}
	}
}
