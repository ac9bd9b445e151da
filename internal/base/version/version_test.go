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
		"none":    {nil, "unknown"},
		"commit":  {[]debug.BuildSetting{{Key: "vcs.revision", Value: "05eb738f2a91cafe"}, {Key: "vcs.modified", Value: "false"}}, "05eb738f2a91"},
		"changed": {[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "05eb738f2a91cafe"}}, "05eb738f2a91+changed"},
		"short":   {[]debug.BuildSetting{{Key: "vcs.revision", Value: "05e"}}, "05e"},
	} {
		if got := fromSettings(test.settings); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestStampWins(t *testing.T) {
	t.Cleanup(func() { stamp, commit = "", "" })
	stamp, commit = "v1.2.3", "05eb738f2a91cafe"
	for what, pair := range map[string][2]string{
		"version": {String(), "v1.2.3"},
		"commit":  {Commit(), "05eb738f2a91"},
		"both":    {Full(), "v1.2.3 05eb738f2a91"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	commit = "05eb738f2a91cafe+changed"
	if got := Commit(); got != "05eb738f2a91+changed" {
		t.Errorf("with changed sources: %q", got)
	}
	stamp, commit = "", "05eb738f2a91cafe"
	if got := String(); got != "dev-05eb738f2a91" {
		t.Errorf("with a commit alone: %q", got)
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
		if got := Asked(&out, "encoder", test.args, func() []string { return []string{"libtorch 2.11.0", "device cpu"} }); got != test.want || (out.Len() > 0) != test.want {
			t.Errorf("%s: %v with output %q, want %v", name, got, out.String(), test.want)
		}
		if line := out.String(); test.want && (!strings.HasPrefix(line, "encoder "+String()+" (commit "+Commit()+", go") || !strings.HasSuffix(line, ", libtorch 2.11.0, device cpu)\n")) {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}
