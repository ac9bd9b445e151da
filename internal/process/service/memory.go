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

// memoryShare is the part of the memory of a control group that Go may use before it collects without pause. The rest
// is for stacks, libraries and files in memory that count as well.
const memoryShare = 0.9

// LimitMemory gives the Go runtime nine tenths of the memory that the process's control group may use, unless
// GOMEMLIMIT says otherwise. Without it, Go lets garbage grow until the kernel ends the process. It tells warn why it
// cannot.
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

// Where the kernel says which groups a process is in, and what they may use.
const (
	groupsOfProcess = "proc/self/cgroup"
	groupsMounted   = "sys/fs/cgroup"
)

// groupLimit returns the least memory limit of the control groups that this process is in, of either version of control
// groups. root is the file system. Found is false where no group has a limit, or the system has none.
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
		// In a container the path may be that of the host. The group itself is then where the groups are mounted.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(mounted, at, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, false, err
			}
			// "max", and what version 1 says for no limit, are no numbers that memory can have.
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
