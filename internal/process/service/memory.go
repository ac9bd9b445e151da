package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of a control group's memory that Go may use before it collects continuously. The rest is for
// stacks, libraries and files in memory, which count too.
const memoryShare = 0.9

// LimitMemory gives the Go runtime nine tenths of the memory limit of the process's control group, unless GOMEMLIMIT is
// set. Otherwise Go lets garbage grow until the kernel kills the process. It reports failures to warn.
func LimitMemory(warn io.Writer) { limitMemory(os.DirFS("/"), warn) }

func limitMemory(root fs.FS, warn io.Writer) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, found, err := groupLimit(root)
	if err != nil {
		fmt.Fprintf(warn, "the memory limit of the control group is not known, so garbage may reach it; GOMEMLIMIT sets a limit: %v\n", err)
	}
	if found {
		debug.SetMemoryLimit(int64(memoryShare * float64(limit)))
	}
}

// CacheBytes returns an nth of the memory that the Go runtime may use, for a cache. Without a limit it is 256 MiB.
func CacheBytes(n int64) int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit / n
	}
	return 256 << 20
}

// The kernel's files about the process's control groups and their limits.
const (
	groupsOfProcess = "proc/self/cgroup"
	groupsMounted   = "sys/fs/cgroup"
)

// groupLimit returns the least memory limit of the process's control groups, of either version. root is the file
// system. found is false if no group has a limit, or the system has no control groups.
func groupLimit(root fs.FS) (limit uint64, found bool, err error) {
	raw, err := fs.ReadFile(root, groupsOfProcess)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	for line := range strings.Lines(string(raw)) {
		// number:controllers:path, with number 0 and no controllers for version 2
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mounted, name := groupsMounted, "memory.max"
		if parts[1] == "memory" {
			mounted, name = path.Join(groupsMounted, "memory"), "memory.limit_in_bytes"
		} else if parts[0] != "0" || parts[1] != "" {
			continue
		}
		// In a container the path may be the host's. The group itself is then at the mount point.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(mounted, at, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, false, err
			}
			// "max", and version 1's value for no limit, are not possible sizes of memory.
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<60 && (!found || n < limit) {
				limit, found = n, true
			}
			if at == "/" {
				break
			}
		}
	}
	return limit, found, nil
}
