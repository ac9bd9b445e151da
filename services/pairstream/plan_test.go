//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPlanIsInTheDocument holds docs/scaling.md to what the command prints.
func TestPlanIsInTheDocument(t *testing.T) {
	raw := must.Get(os.ReadFile("../../docs/scaling.md"))(t)
	want := "<!-- plan: begin -->\n```text\n" + mustCommand(t, "plan", "--pairs", "1e9", "--days", "14", "--gpu", "h100") + "```\n<!-- plan: end -->\n"
	if !strings.Contains(string(raw), want) {
		t.Errorf("docs/scaling.md has another plan; put this into it:\n%s", want)
	}
}

func TestPlanOfOtherRequests(t *testing.T) {
	small := strings.Join(strings.Fields(mustCommand(t, "plan", "--pairs", "1e7", "--days", "3", "--gpu", "a100", "--preset", "small", "--candidates", "0", "--train-rate", "900")), " ")
	for _, words := range []string{"10 M pairs, 20 epochs, preset small, a100, 3 days", "training on a GPU 900 pairs/s measured", "the same of smaller presets"} {
		if !strings.Contains(small, words) {
			t.Errorf("no %q in %s", words, small)
		}
	}
	if strings.Contains(small, "discriminator") {
		t.Errorf("a plan without candidates has a discriminator: %s", small)
	}
	for _, tt := range []struct{ args, words string }{
		{"--pairs 1e9", "--days is 0"},
		{"--pairs 1e9 --days 14 --gpu k80", "want one of a100"},
		{"--pairs 1e9 --days 14 --preset huge", `model preset "huge" is not known`},
		{"--pairs 1e9 --days 14 --candidates -1", "--candidates is -1"},
	} {
		if _, err := command(t, append([]string{"plan"}, strings.Fields(tt.args)...)...); err == nil || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want %q in it", tt.args, err, tt.words)
		}
	}
}
