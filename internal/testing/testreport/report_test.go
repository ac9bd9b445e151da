package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"m/a"}
{"Action":"start","Package":"m/killed"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:7: wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestGPU/cuda","Output":"    a_test.go:9: no GPU\n"}
{"Action":"output","Package":"m/a","Test":"TestGPU/cuda","Output":"--- SKIP: TestGPU/cuda (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestGPU/cuda"}
{"Action":"skip","Package":"m/a","Test":"TestOther"}
{"Action":"output","Package":"m/a","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t1.2s\n"}
{"Action":"fail","Package":"m/a"}
{"Action":"build-output","ImportPath":"m/b","Output":"b.go:1: undefined: x\n"}
not an event
`

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	unexpected := r.summarize(&expectations{tests: []string{"a.TestGPU"}})
	if r.passed != 1 || r.failed != 3 || unexpected != 1 {
		t.Errorf("%d passed, %d failed, %d unexpected skips; want 1, 3, 1", r.passed, r.failed, unexpected)
	}
	for _, want := range []string{
		"a_test.go:7: wrong", "did not end: m/a.TestHangs\npanic: test timed out", "FAIL\tm/a\t1.2s", "b.go:1: undefined: x", "not an event",
		"FAIL\tm/killed: go test ended before the package did",
		"\n  skip: m/a.TestGPU/cuda: a_test.go:9: no GPU", "\n  UNEXPECTED skip: m/a.TestOther: no reason given",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "quiet") {
		t.Errorf("the report shows the output of a test that passed:\n%s", out.String())
	}
}

func TestSkipsAreExpectedByPackageAndTop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skips")
	text := "# comment\n\ninternal/shard.TestFlickr  PHOTOS  no photographs here\ntorch.TestCUDA - no GPU\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		test, photos string
		want         bool
	}{
		{"m/internal/shard.TestFlickr", "", true},
		{"m/internal/shard.TestFlickr", "/photos", false},
		{"m/internal/shard.TestFlickrs", "", false},
		{"m/other/shard.TestFlickr", "", false},
		{"m/internal/torch.TestCUDA/half.precision/x", "/photos", true},
		{"m/internal/flashtorch.TestCUDA", "", false},
	}
	for _, tt := range tests {
		e, err := readExpectations(path, func(string) string { return tt.photos })
		if err != nil {
			t.Fatal(err)
		}
		if got := e.allow(tt.test); got != tt.want {
			t.Errorf("%s, photographs %q: allowed is %v", tt.test, tt.photos, got)
		}
	}
	if err := os.WriteFile(path, []byte("TestFlickr\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readExpectations(path, os.Getenv); err == nil || !strings.Contains(err.Error(), ":1 says") {
		t.Errorf("a line without package and reason: %v", err)
	}
}

// A run of go test that cannot begin fails, and says why.
func TestRunThatCannotBegin(t *testing.T) {
	t.Setenv("PAIRSTREAM_SKIPS", "")
	t.Setenv("PAIRSTREAM_SKIPPED", "")
	var out strings.Builder
	failed, err := run([]string{"./nowhere"}, &out)
	if err != nil || !failed {
		t.Errorf("a folder that is not there: failed is %v, %v", failed, err)
	}
}
