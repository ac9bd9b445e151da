package eval

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestReportsArePrinted(t *testing.T) {
	print := func(r *Report) string {
		var out strings.Builder
		must.Do(t, r.Print(&out))
		return out.String()
	}
	r := &Report{Images: 3, Texts: 9, TopK: 256, Match: MatchError{Error: 12.5, Positive: 5, Negative: 20}}
	if got := print(r); !strings.Contains(got, "3 images, 9 texts\n") || strings.Contains(got, "ITM, top") || strings.Contains(got, "UoV") ||
		!strings.Contains(got, "matching error 12.5 % (true pairs refused 5.0 %, hardest negatives accepted 20.0 %)") {
		t.Errorf("it prints\n%s", got)
	}
	r.ITM = &Retrieval{TR: Recalls{R1: 50}}
	r.Vision = []Usage{{Share: 0.5, Words: 8, With: Accuracy{Top1: 40}, Without: Accuracy{Top1: 25}}}
	got := print(r)
	for _, row := range []string{"ITM, top 256 50.0 0.0", "50 % 8 40.0 0.0 25.0 0.0 15.0 0.0"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), row) {
			t.Errorf("it prints\n%swant a row %q", got, row)
		}
	}
}

// Where nobody knows the truth, the share of true pairs is assumed, and there is neither precision nor recall.
func TestCondReportsArePrinted(t *testing.T) {
	print := func(r *CondReport) string {
		var out strings.Builder
		must.Do(t, r.Print(&out))
		return out.String()
	}
	falls, auc := 0.9, 0.75
	r := &CondReport{Images: 4, BaseRate: 0.1, Above: []Above{{High: 0.8, Own: 0.5}}}
	if got := print(r); !strings.Contains(got, "assumed, 10.0 % of the hard pairs") || !strings.Contains(got, "not calibrated; ") || strings.Contains(got, "precision falls") ||
		!strings.Contains(strings.Join(strings.Fields(got), " "), "0.80 50.0 0.0 - - - -") {
		t.Errorf("it prints\n%s", got)
	}
	r.Counted, r.CandidateAUC, r.Falls = true, &auc, &falls
	if got := print(r); !strings.Contains(got, "true are 10.0 % of the hard pairs, counted; AUC among these 0.750") || !strings.Contains(got, "precision falls: above 0.90") {
		t.Errorf("it prints\n%s", got)
	}
}
