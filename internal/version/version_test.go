package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestFromSettings(t *testing.T) {
	for name, test := range map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"none":    {nil, "dev"},
		"commit":  {[]debug.BuildSetting{{Key: "vcs.revision", Value: "05eb738f2a91cafe"}, {Key: "vcs.modified", Value: "false"}}, "dev-05eb738f2a91"},
		"changed": {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "05eb738f2a91cafe"}}, "dev-05eb738f2a91+changed"},
		"short":   {[]debug.BuildSetting{{Key: "vcs.revision", Value: "05e"}}, "dev-05e"},
	} {
		if got := fromSettings(test.settings); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestStampWins(t *testing.T) {
	t.Cleanup(func() { stamp = "" })
	stamp = "v1.2.3"
	if got := String(); got != "v1.2.3" {
		t.Errorf("got %q", got)
	}
}

func TestAsked(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want bool
	}{
		"asked":           {[]string{"--version"}, true},
		"nothing":         {nil, false},
		"another flag":    {[]string{"--help"}, false},
		"of a subcommand": {[]string{"produce", "--version"}, false},
	} {
		var out strings.Builder
		if got := Asked(&out, "encoder", test.args); got != test.want || (out.Len() > 0) != test.want {
			t.Errorf("%s: %v with output %q, want %v", name, got, out.String(), test.want)
		}
		if test.want && !strings.HasPrefix(out.String(), "encoder "+String()+" (go") {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}
