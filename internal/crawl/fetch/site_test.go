//go:build torture && linux

package fetch_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/hostile"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// maxFetchRSS is the most memory that a fetcher takes, whatever a web sends.
const maxFetchRSS = 300_000_000

// goodHosts are the hosts of the good rows.
const goodHosts = 20

// These make the test's binary a fetcher, which asks a name server of the test.
const (
	listEnv  = "PAIRSTREAM_TEST_LIST"
	outEnv   = "PAIRSTREAM_TEST_OUT"
	namesEnv = "PAIRSTREAM_TEST_NAMES"
	rateEnv  = "PAIRSTREAM_TEST_RATE"
)

func TestMain(m *testing.M) {
	list := os.Getenv(listEnv)
	if list == "" {
		os.Exit(m.Run())
	}
	if names := os.Getenv(namesEnv); names != "" {
		net.DefaultResolver = hostile.Resolver(names)
	}
	rate, err := strconv.ParseFloat(os.Getenv(rateEnv), 64)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	o := fetch.Options{ // the command's defaults, but for a rate of 10, a timeout of 30 s and 16 MB
		PerShard: 10_000, Threads: 32, Timeout: 4 * time.Second, MaxBytes: 1 << 20, Redirects: 5,
		PerHost: 4, HostRate: rate, UserAgent: "pairstream/1", AllowLoopback: true,
		SetAside: func(host string, pause time.Duration) { fmt.Println(host, "is set aside for", pause) },
	}
	opened, err := table.Open(context.Background(), list, table.Columns{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := fetch.Run(context.Background(), opened, o, shard.Folder(os.Getenv(outEnv)), func(context.Context, int, *fetch.Stats) error { return nil }); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestTortureHostileSite fetches good rows alone, and then among as many of a hostile web, at a rate that the hosts
// bound and at one that nothing does. Every good row has its image, no other row has one, and the memory stays bounded.
// It prints how long the good ones took.
func TestTortureHostileSite(t *testing.T) {
	const rows = 10_000
	for _, rate := range []float64{100, 1e6} {
		good, served := goodSites(t, rows)
		alone := fetchSite(t, good, nil, "", rate, served)
		web := hostile.New(t)
		mixed := fetchSite(t, good, web.URLs(rows), web.Names(), rate, served)
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(mixed.reasons)) {
			reasons = append(reasons, fmt.Sprintf("%s %d", reason, mixed.reasons[reason]))
		}
		figures.Record(t, figures.Figures{Scenario: "fetch, a hostile web", Broker: "none", Faults: rows, Records: rows, Note: fmt.Sprintf(
			"at most %g requests a second for a host: all %d good rows of %d hosts came in %.2f s alone, and in %.2f s among %d rows of %d hostile hosts (%.2f times), which ended after %.1f s; %.1f s of a processor alone, %.1f s with all; peak memory %d MB alone, %d MB with all; %s",
			rate, rows, goodHosts, alone.good.Seconds(), mixed.good.Seconds(), rows, web.Hosts(), mixed.good.Seconds()/alone.good.Seconds(), mixed.whole.Seconds(),
			alone.cpu.Seconds(), mixed.cpu.Seconds(), alone.peak/1e6, mixed.peak/1e6, strings.Join(reasons, ", "))})
		if mixed.peak > maxFetchRSS {
			t.Errorf("the fetcher has had %d MB, want at most %d", mixed.peak/1e6, int(maxFetchRSS/1e6))
		}
		if !strings.Contains(mixed.said, "is set aside") {
			t.Errorf("nothing is said of hosts that are set aside: %s", mixed.said)
		}
	}
}

// goodSites serves so many pictures from several hosts. served says when the last one went out.
func goodSites(t *testing.T, rows int) (urls []string, served *atomic.Int64) {
	t.Helper()
	served = new(atomic.Int64)
	picture := encode(t, 1)
	var bases []string
	for range goodHosts {
		s := newHost(t, func(rw http.ResponseWriter, _ *http.Request) {
			if _, err := rw.Write(picture); err != nil {
				t.Log(err)
			}
			served.Store(time.Now().UnixNano())
		})
		bases = append(bases, s.URL)
	}
	for i := range rows {
		urls = append(urls, fmt.Sprintf("%s/%d", bases[i%goodHosts], i))
	}
	return urls, served
}

type siteResult struct {
	good, whole, cpu time.Duration // until the last good row, and until the end
	peak             int64
	reasons          map[string]int
	said             string
}

// fetchSite runs a fetcher on a list of good and bad rows, in an order that a seed draws, and looks at every outcome.
func fetchSite(t *testing.T, good, bad []string, names string, rate float64, served *atomic.Int64) siteResult {
	t.Helper()
	dir := t.TempDir()
	all := slices.Concat(good, bad)
	rand.New(rand.NewPCG(soak.Seed(t, 3), 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	list, out := filepath.Join(dir, "list.csv"), filepath.Join(dir, "out")
	must.Do(t, os.WriteFile(list, []byte("url,caption\n"+strings.Join(all, ",a picture\n")+",a picture\n"), 0o600))
	self := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), listEnv+"="+list, outEnv+"="+out, namesEnv+"="+names, fmt.Sprintf("%s=%g", rateEnv, rate))
	began := time.Now()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	p := cmd.ProcessState
	r := siteResult{
		good: time.Unix(0, served.Load()).Sub(began), whole: time.Since(began), cpu: p.UserTime() + p.SystemTime(),
		peak: p.SysUsage().(*syscall.Rusage).Maxrss << 10, reasons: map[string]int{}, said: string(said),
	}
	left := map[string]bool{}
	for _, u := range good {
		left[u] = true
	}
	tables := must.Get(filepath.Glob(filepath.Join(out, "*.parquet")))(t)
	seen := 0
	for _, path := range tables {
		must.Do(t, table.ParquetFile(t.Context(), path, func(row table.Row) error {
			seen++
			url, ok := row.Text("url"), row.Text("status") == "success"
			if ok != left[url] {
				t.Errorf("%s: success is %t (%s)", url, ok, row.Text("error_message"))
			}
			if delete(left, url); !ok {
				r.reasons[row.Text("error_message")]++
			}
			return nil
		}))
	}
	if seen != len(all) || len(left) > 0 {
		t.Errorf("%d rows have an outcome, want %d; %d good ones have none", seen, len(all), len(left))
	}
	return r
}
