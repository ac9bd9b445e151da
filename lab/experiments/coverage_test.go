package experiments

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// The more candidates, the more often the hardest sample is one. Among all others it always is.
func TestCoverage(t *testing.T) {
	rows := must.Get(RunCoverage(t.Context(), newJob(t, 1)))(t)
	var sizes []int
	for i, r := range rows {
		sizes = append(sizes, r.M)
		// 48 pairs in two directions, in the second epoch alone.
		if r.Anchors != 2*48 || r.PerBatch <= 0 || r.Share <= 0 || i > 0 && r.Found < rows[i-1].Found {
			t.Errorf("row %+v behind %+v", r, rows[max(i-1, 0)])
		}
	}
	if last := rows[len(rows)-1]; len(sizes) != 5 || last.M != 11 || last.Found != last.Anchors || rows[0].Found == 0 || rows[0].Found == last.Found {
		t.Errorf("%+v, want m = 1, 2, 4, 8 and 11, of which the last finds all", rows)
	}
	var out strings.Builder
	if err := PrintCoverage(&out, rows); err != nil || !strings.Contains(out.String(), "100.0 %") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}
