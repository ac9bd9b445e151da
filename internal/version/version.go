// Package version says which build of pairstream a binary is. The images stamp it:
//
//	go build -ldflags "-X github.com/pairstream/pairstream/internal/version.stamp=v1.2.3"
//
// A build without a stamp names the commit that the Go tool recorded, or "dev" where it recorded none.
package version

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

var stamp string // set by the linker

// String is the version alone: "v1.2.3", "dev-05eb738f2a91", or "dev".
func String() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return fromSettings(info.Settings)
}

func fromSettings(settings []debug.BuildSetting) string {
	var commit, changed string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changed"
		}
	}
	return "dev" + commit + changed
}

// Asked answers `NAME --version`: when that is what args ask for, it writes one line about the build and reports true.
// args are those after the program's name.
func Asked(w io.Writer, name string, args []string) bool {
	if len(args) != 1 || args[0] != "--version" {
		return false
	}
	fmt.Fprintf(w, "%s %s (%s, %s/%s)\n", name, String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return true
}
