package service

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestGroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64 // 0: none
	}{
		"no control groups": {nil, 0},
		"no limit":          {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"a container":       {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "134217728\n"}, 128 << 20},
		"the least of the groups above": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.max": "2000\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 1000},
		"the host's path in a container": {map[string]string{"proc/self/cgroup": "0::/kubepods/x\n", "sys/fs/cgroup/memory.max": "5000\n"}, 5000},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 3000},
		"version 1 without a limit": {map[string]string{
			"proc/self/cgroup": "4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"lines of another shape": {map[string]string{"proc/self/cgroup": "x\n\n0::/../../y\n", "sys/fs/cgroup/memory.max": "7000"}, 7000},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, found, err := groupLimit(root); err != nil || got != c.want || found != (c.want > 0) {
			t.Errorf("%s: limit %d (%v, %v), want %d", name, got, found, err, c.want)
		}
	}
}

// TestLimitMemory sets nine tenths of the group's limit, and nothing where the environment does.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(12345 << 20)
	defer debug.SetMemoryLimit(before)
	root := fstest.MapFS{
		"proc/self/cgroup":         {Data: []byte("0::/\n")},
		"sys/fs/cgroup/memory.max": {Data: []byte("40000000000\n")},
	}
	for variable, want := range map[string]int64{"1GiB": 12345 << 20, "": 36_000_000_000} {
		t.Setenv("GOMEMLIMIT", variable)
		debug.SetMemoryLimit(12345 << 20)
		limitMemory(root, t.Output())
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("GOMEMLIMIT=%s: the limit is %d, want %d", variable, got, want)
		}
	}
	LimitMemory(t.Output()) // whatever this machine has
}

// TestCacheBytes has caches follow the memory that there is.
func TestCacheBytes(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	if got := CacheBytes(8); got != 256<<20 {
		t.Errorf("%d bytes without a limit, want 256 MiB", got)
	}
	debug.SetMemoryLimit(8 << 30)
	if got := CacheBytes(8); got != 1<<30 {
		t.Errorf("%d bytes of 8 GiB, want an eighth", got)
	}
}
