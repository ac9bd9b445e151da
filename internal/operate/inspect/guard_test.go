package inspect

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

func TestChecksAreSaid(t *testing.T) {
	on, off := &schemas.Check{Positives: 288, AUC: 0.75, Least: 0.55}, &schemas.Check{Positives: 257, AUC: 0.5, Least: 0.55}
	open := &schemas.Check{Positives: 48, AUC: 0.75, Least: 0.55, Open: true}
	measured := &schemas.Check{Positives: 288, AUC: 0.97, Least: 0.4, Precision: &schemas.Precision{Above: 0.8, Value: 0.72, Low: 0.49, High: 0.83, Candidates: 1152, Negatives: 1000}}
	for name, c := range map[string]struct {
		all  Checks
		want []string
	}{
		"no guard":  {Checks{nil, nil}, nil},
		"on":        {Checks{on, nil}, []string{"AUC 0.750 on 288 known positives of lane 0: connections are on"}},
		"precision": {Checks{measured}, []string{"72 % of the connections of lane 0 are true (49 to 83 %), by 1152 of the hardest candidates: connections are on"}},
		"mixed": {Checks{on, off}, []string{
			"AUC 0.750 on 288 known positives of lane 0: connections are on", "AUC 0.500 on 257 known positives of lane 1: connections are off", off.String(),
		}},
		"too few": {Checks{open}, []string{"AUC 0.750 on 48 known positives of lane 0: connections are off", open.String()}},
	} {
		if got := c.all.Lines(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
