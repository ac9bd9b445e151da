package console

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/console/index"
)

var label = regexp.MustCompile(`<text x="([0-9.]+)" y="[0-9.]+" text-anchor="([a-z]+)" fill="#888">([^<]+)</text>`)

// The labels of axes lie within their drawing, whatever they say.
func TestLabelsOfAxesAreWhole(t *testing.T) {
	for name, c := range map[string]struct {
		last      int64
		low, high float64
	}{
		"a thousand steps": {1000, 0, 1}, "a million steps": {1_000_000, 0.1, 0.2}, "large values": {10, 0, 12_000_000}, "small values": {500, 0, 0.00004},
		"negative values": {7, -250_000, -1},
	} {
		drawn := string(curveSVG(compare.Overlay{Title: "x", Runs: []string{"a"}, X: []int64{0, c.last}, Y: [][]*float64{{&c.low, &c.high}}}))
		found := label.FindAllStringSubmatch(drawn, -1)
		if len(found) < 4 {
			t.Errorf("%s: %d labels in %s", name, len(found), drawn)
		}
		for _, m := range found {
			x, err := strconv.ParseFloat(m[1], 64)
			wide := width(m[3])
			from, to := x-wide, x
			if m[2] == "middle" {
				from, to = x-wide/2, x+wide/2
			}
			if err != nil || from < 0 || to > plotWide {
				t.Errorf("%s: %q is drawn from %.1f to %.1f of %g, %v", name, m[3], from, to, plotWide, err)
			}
		}
	}
}

// A key has the runs with a line, in the colours of their lines.
func TestKeyOfADrawing(t *testing.T) {
	v := 1.0
	c := compare.Overlay{Title: "x", Runs: []string{"a", "b", "c"}, X: []int64{0, 1}, Y: [][]*float64{{&v, nil}, {nil, nil}, {nil, &v}}}
	if got, want := keyOf(c), []legend{{"a", lineColours[0]}, {"c", lineColours[2]}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A measure in which every model reaches 100 % is no column.
func TestColumnsThatTellNothing(t *testing.T) {
	m := models{Rows: []taught{{Name: "before"}, {Name: "after"}}}
	for _, c := range []struct {
		name          string
		before, after float64
	}{{"ends", 100, 99.96}, {"auc", 90, 100}, {"never", 0, 0}} {
		m.add(compare.Measure{Name: c.name, Title: c.name}, []index.Report{{Values: map[string]float64{c.name: c.before}}, {Values: map[string]float64{c.name: c.after}}})
	}
	m.add(compare.Measure{Name: "half", Title: "half"}, []index.Report{{}, {Values: map[string]float64{"half": 100}}})
	want := []taught{{Name: "before", Values: []string{"90.0 %", "0.0 %", "–"}}, {Name: "after", Values: []string{"100.0 %", "0.0 %", "100.0 %"}}}
	if !reflect.DeepEqual(m.Rows, want) || !reflect.DeepEqual(m.Measures, []string{"auc", "never", "half"}) {
		t.Errorf("%v: %v", m.Measures, m.Rows)
	}
}

func TestDocumentationIsThatOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{"v0.1.0": "/v0.1.0/", "v1.2": "/v1.2/", "dev-05eb738f2a91": "/main/", "v1.2.3-rc1": "/main/", "": "/main/"} {
		if got := documentation(version); !strings.HasSuffix(got, want+"console/") {
			t.Errorf("version %q: %s", version, got)
		}
	}
}
