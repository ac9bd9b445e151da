package golden

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A package that reads reference vectors lists the tensors that its tests read, in testdata/golden/reads. [Main]
// compares the list with what they have read. A test of this package finds the tensors that no list has.

var rewriteReads = flag.Bool("rewrite-reads", false, "write anew which reference vectors the tests of this package read")

// reads has the tensors of the files that were opened, by file and name: true where they were read.
var reads = struct {
	sync.Mutex
	files map[string]map[string]bool
}{files: map[string]map[string]bool{}}

// known enters the tensors of a file.
func known(file string, names []string) {
	reads.Lock()
	defer reads.Unlock()
	if reads.files[file] == nil {
		reads.files[file] = map[string]bool{}
		for _, name := range names {
			if !Alias(name) {
				reads.files[file][name] = false
			}
		}
	}
}

// note marks a tensor of a file as read.
func note(file, name string) {
	reads.Lock()
	defer reads.Unlock()
	if !Alias(name) {
		reads.files[file][name] = true
	}
}

// Alias tells whether a weight is the constant of positions, or another name of the word embeddings and of their bias.
// Models do not read these.
func Alias(name string) bool {
	return strings.HasSuffix(name, ".position_ids") || strings.Contains(name, ".cls.predictions.decoder.")
}

// Loaded marks the weights of a file as read that a model has loaded, by their names behind the prefix. A model without
// a head for masked words has no "bert." in its names.
func (f *File) Loaded(prefix string, names ...string) {
	for _, name := range names {
		for _, there := range []string{prefix + name, prefix + strings.Replace(name, "text_encoder.bert.", "text_encoder.", 1)} {
			if _, ok := f.File.Tensor(there); ok {
				note(f.file, there)
			}
		}
	}
}

// Main runs the tests of a package, and compares what they have read with the package's list. It does so after a whole
// run on the repository's own set alone.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 && (wholeRun() || *rewriteReads) {
		if err := checkReads(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// wholeRun tells whether no flag has left tests out.
func wholeRun() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return os.Getenv(FolderVariable) == "" && !testing.Short()
}

// checkReads compares what was read with the list of the package in the present folder, or writes the list.
func checkReads() error {
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	root := folder
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return fmt.Errorf("no go.mod above %s", folder)
		}
		root = filepath.Dir(root)
	}
	of, err := filepath.Rel(root, folder)
	if err != nil {
		return err
	}
	path := filepath.Join(root, "testdata", "golden", "reads", strings.ReplaceAll(filepath.ToSlash(of), "/", "-")+".txt")
	text := listed()
	if *rewriteReads {
		return os.WriteFile(path, []byte(text), 0o644)
	}
	before, err := os.ReadFile(path)
	if err == nil && string(before) == text {
		return nil
	}
	return fmt.Errorf("the tests read other reference vectors than %s lists: go test ./%s -rewrite-reads, and look at the difference", path, of)
}

// listed writes what was read, a line of each tensor with its file. A family that was read whole is one line: "w.*".
func listed() string {
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(reads.files)) {
		tensors := reads.files[file]
		whole := map[string]bool{} // families, of which one has not been read whole
		for name, read := range tensors {
			for _, family := range families(name) {
				before, seen := whole[family]
				whole[family] = read && (before || !seen)
			}
		}
		lines := map[string]bool{}
		for name, read := range tensors {
			if !read {
				continue
			}
			line := name
			if i := slices.IndexFunc(families(name), func(family string) bool { return whole[family] }); i >= 0 {
				line = families(name)[i] + "*"
			}
			lines[line] = true
		}
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			fmt.Fprintf(&b, "%s %s\n", file, line)
		}
	}
	return b.String()
}

// families returns the beginnings of a tensor's name, the widest first: "out64.", "out64.w." and so on.
func families(name string) (all []string) {
	for i, r := range name {
		if r == '.' {
			all = append(all, name[:i+1])
		}
	}
	return all
}
