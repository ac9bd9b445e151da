// Package golden finds the reference vectors for tests, and compares with them.
//
// The vectors lie in testdata/golden at the root of the repository. The environment variable PAIRSTREAM_GOLDEN names
// the folder of another set. Go's test cache sees a change of a file within the repository, but not of one elsewhere:
// run tests with another set with -count=1. Sizes belong to the files, never to a test.
package golden

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
)

// FolderVariable is the name of the environment variable.
const FolderVariable = "PAIRSTREAM_GOLDEN"

// Path returns the path of a file of the reference vectors. It ends the test when the file is missing.
func Path(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv(FolderVariable)
	if folder == "" {
		folder = Testdata(t, "golden")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("looking for reference vectors: %v (%s may name another folder)", err, FolderVariable)
	}
	return path
}

// Testdata returns a path below testdata at the root of the repository.
func Testdata(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(repositoryRoot(t), "testdata", name)
}

// repositoryRoot finds the folder of go.mod above the test's folder.
func repositoryRoot(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatalf("looking for the repository: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		up := filepath.Dir(folder)
		if up == folder {
			t.Fatal("looking for the repository: no go.mod above the test's folder")
		}
		folder = up
	}
}

// File is a file of tensors. Its methods end the test when something is missing.
type File struct {
	*safetensors.File
	t    testing.TB
	file string // its name
}

// Open reads a file of tensors.
func Open(t testing.TB, name string) *File {
	t.Helper()
	f, err := safetensors.Open(Path(t, name))
	if err != nil {
		t.Fatalf("opening reference vectors: %v", err)
	}
	known(name, f.Names())
	return &File{File: f, t: t, file: name}
}

// Config decodes the configuration that the file's numbers were made with.
func (f *File) Config(into any) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.Metadata["config"]), into); err != nil {
		f.t.Fatalf("decoding the configuration of the reference vectors: %v", err)
	}
}

// twins maps the prefixes of the reference's run in float32 to those of its run in float64.
var twins = map[string]string{"out.": "out64.", "grad.": "grad64."}

// Tensor finds a tensor. A set may hold one of the reference's two runs only. Where the run in float32 is missing,
// Tensor finds the run in float64.
func (f *File) Tensor(name string) (safetensors.Tensor, bool) {
	if x, ok := f.File.Tensor(name); ok {
		note(f.file, name)
		return x, true
	}
	for short, long := range twins {
		if rest, ok := strings.CutPrefix(name, short); ok {
			x, ok := f.File.Tensor(long + rest)
			if ok {
				note(f.file, long+rest)
			}
			return x, ok
		}
	}
	return safetensors.Tensor{}, false
}

// Must returns a tensor, and ends the test when it is missing.
func (f *File) Must(name string) safetensors.Tensor {
	f.t.Helper()
	x, ok := f.Tensor(name)
	if !ok {
		f.t.Fatalf("the reference vectors have no tensor %s", name)
	}
	return x
}

// Float64s returns the elements of a floating-point tensor.
func (f *File) Float64s(name string) []float64 { return must(f, name, safetensors.Tensor.Float64s) }

// Float32s returns the elements of a floating-point tensor.
func (f *File) Float32s(name string) []float32 { return must(f, name, safetensors.Tensor.Float32s) }

// Int64s returns the elements of an integer tensor.
func (f *File) Int64s(name string) []int64 { return must(f, name, safetensors.Tensor.Int64s) }

// Bools returns the elements of a tensor of flags.
func (f *File) Bools(name string) []bool { return must(f, name, safetensors.Tensor.Bools) }

func must[T any](f *File, name string, read func(safetensors.Tensor) ([]T, error)) []T {
	f.t.Helper()
	values, err := read(f.Must(name))
	if err != nil {
		f.t.Fatalf("reading reference tensor %s: %v", name, err)
	}
	return values
}

// Close compares values and fails the test on a difference. An error may be as large as rel times the largest magnitude
// of want, plus abs.
func Close(t testing.TB, what string, got, want []float64, rel, abs float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	scale := 0.0
	for _, v := range want {
		scale = max(scale, math.Abs(v))
	}
	worst, at := -1.0, 0
	for i := range got {
		off := math.Abs(got[i] - want[i])
		if math.IsNaN(off) {
			t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
			return
		}
		if off > worst {
			worst, at = off, i
		}
	}
	if worst > rel*scale+abs {
		t.Errorf("%s: value %d is %v, want %v: off by %.3g, allowed %.3g", what, at, got[at], want[at], worst, rel*scale+abs)
	}
}
