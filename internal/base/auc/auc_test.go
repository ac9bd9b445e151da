package auc_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/base/auc"
)

func TestAUC(t *testing.T) {
	for name, c := range map[string]struct {
		all  []auc.Judgement
		want float64
	}{
		"all in order":       {[]auc.Judgement{{P: 0.9, True: true}, {P: 0.8, True: true}, {P: 0.2}}, 1},
		"all out of order":   {[]auc.Judgement{{P: 0.1, True: true}, {P: 0.8}}, 0},
		"one of four wrong":  {[]auc.Judgement{{P: 0.9, True: true}, {P: 0.3, True: true}, {P: 0.5}, {P: 0.1}}, 0.75},
		"equal counts half":  {[]auc.Judgement{{P: 0.5, True: true}, {P: 0.5}}, 0.5},
		"equal among others": {[]auc.Judgement{{P: 0.5, True: true}, {P: 0.5}, {P: 0.1}, {P: 0.9, True: true}}, 0.875},
		"nothing true":       {[]auc.Judgement{{P: 0.5}}, 0.5},
		"nothing":            {nil, 0.5},
	} {
		if got := auc.Of(c.all); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
