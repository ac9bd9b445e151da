package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// decisionHead is the third line of a decision.
var decisionHead = regexp.MustCompile(`^Date: \d{4}-\d\d-\d\d\. Status: (accepted|superseded by \[.+\]\(.+\))\. Tested by: (.+)\.$`)

// Every decision says when it was made, whether it holds and what tests it. The tests that it names exist.
func TestDecisionsHaveDateStatusAndTests(t *testing.T) {
	const root = "../.."
	names := must.Get(filepath.Glob(root + "/docs/decisions/*.md"))(t)
	makefile := read(t, root, "Makefile")
	decisions := 0
	for _, name := range names {
		if filepath.Base(name) == "README.md" {
			continue
		}
		decisions++
		lines := strings.SplitN(string(must.Get(os.ReadFile(name))(t)), "\n", 4)
		m := decisionHead.FindStringSubmatch(lines[2])
		if m == nil {
			t.Errorf("%s: third line is %q, want Date: YYYY-MM-DD. Status: accepted. Tested by: `make TARGET`, `FOLDER`.", name, lines[2])
			continue
		}
		tests := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test", name)
		}
		for _, test := range tests {
			target, isTarget := strings.CutPrefix(test[1], "make ")
			if isTarget && !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s: the Makefile has no target %s", name, target)
			}
			if _, err := os.Stat(filepath.Join(root, test[1])); !isTarget && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if decisions < 5 {
		t.Errorf("found %d decisions: is %s the root of the repository?", decisions, root)
	}
}
