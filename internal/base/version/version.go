// Package version says which build of pairstream a binary is. Releases stamp it:
//
//	go build -ldflags "-X $P.stamp=v1.2.3 -X $P.commit=05eb738f2a91", where P=github.com/pairstream/pairstream/internal/base/version
//
// A build without a stamp names the commit that the Go tool recorded, or none where it recorded none.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

var stamp, commit string // set by the linker

const (
	digits  = 12        // of a commit
	unknown = "unknown" // the commit of a build that recorded none
)

// recorded returns the commit that the Go tool recorded.
var recorded = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return fromSettings(info.Settings)
})

// String is the version alone: "v1.2.3", "dev-05eb738f2a91", or "dev".
func String() string {
	switch c := Commit(); {
	case stamp != "":
		return stamp
	case c != unknown:
		return "dev-" + c
	}
	return "dev"
}

// Commit is the commit that was built, in twelve digits: "05eb738f2a91". "+changed" follows where the sources were
// changed. It is "unknown" where nothing recorded it.
func Commit() string {
	if commit == "" {
		return recorded()
	}
	revision, changed, _ := strings.Cut(commit, "+")
	return revision[:min(digits, len(revision))] + strings.TrimSuffix("+"+changed, "+")
}

// Full is the version with the commit: "v1.2.3 05eb738f2a91".
func Full() string { return String() + " " + Commit() }

func fromSettings(settings []debug.BuildSetting) string {
	revision, changed := unknown, ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(digits, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	return revision + changed
}

// Asked answers `NAME --version`: when that is what args ask for, it writes one line about the build and reports true.
// args are those after the program's name. facts are what the program says besides, such as its libtorch.
func Asked(w io.Writer, name string, args []string, facts func() []string) bool {
	if len(args) != 1 || args[0] != "--version" {
		return false
	}
	said := append([]string{"commit " + Commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}, facts()...)
	fmt.Fprintf(w, "%s %s (%s)\n", name, String(), strings.Join(said, ", "))
	return true
}
