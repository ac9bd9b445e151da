package lint

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// source is one Go file.
type source struct {
	name    string // base name
	test    bool
	lines   int
	imports []string
	ast     *ast.File
	fset    *token.FileSet
}

// pkg is one folder of Go files.
type pkg struct {
	dir   string // relative to the root, with slashes; "." for the root
	files []source
}

// repository is the Go source of this module.
type repository struct {
	root   string
	module string
	pkgs   map[string]*pkg // by dir
}

// load returns the repository, which is read once for all tests. A test may add packages and take some away.
func load(t *testing.T) *repository {
	t.Helper()
	r := *must.Get(loaded())(t)
	r.pkgs = maps.Clone(r.pkgs)
	return &r
}

var loaded = sync.OnceValues(func() (*repository, error) {
	r := &repository{root: "../..", pkgs: map[string]*pkg{}}
	gomod, err := os.ReadFile(filepath.Join(r.root, "go.mod"))
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(gomod), "\n")
	r.module = strings.TrimPrefix(line, "module ")
	err = filepath.WalkDir(r.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		switch {
		case d.IsDir() && name != r.root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "bin" || base == "data"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(base) != ".go":
			return nil
		}
		return r.add(name)
	})
	if err == nil && r.pkgs["schemas"] == nil {
		err = fmt.Errorf("no Go files in schemas: is %s the root of the repository?", r.root)
	}
	return r, err
})

func (r *repository) add(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	s, err := parse(name, text)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(r.root, filepath.Dir(name))
	if err != nil {
		return err
	}
	dir := filepath.ToSlash(rel)
	if r.pkgs[dir] == nil {
		r.pkgs[dir] = &pkg{dir: dir}
	}
	r.pkgs[dir].files = append(r.pkgs[dir].files, s)
	return nil
}

func parse(name string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{
		name: filepath.Base(name), test: strings.HasSuffix(name, "_test.go"), lines: strings.Count(string(text), "\n"), ast: file, fset: fset,
	}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, p)
	}
	return s, nil
}

// at returns the place of a node, for messages.
func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

// dirs lists the packages at or below any of the folders. A missing folder has none.
func (r *repository) dirs(folders ...string) []string {
	var out []string
	for dir := range r.pkgs {
		for _, f := range folders {
			if below(dir, f) {
				out = append(out, dir)
			}
		}
	}
	slices.Sort(out)
	return out
}

// local returns the folder of an import path of this module.
func (r *repository) local(importPath string) (string, bool) {
	if importPath == r.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, r.module+"/")
}

// imports lists what a package imports, test files aside, with one file that does.
func (p *pkg) imports() map[string]string {
	out := map[string]string{}
	for _, f := range p.files {
		if f.test {
			continue
		}
		for _, i := range f.imports {
			out[i] = path.Join(p.dir, f.name)
		}
	}
	return out
}

// reach lists what a package imports, directly or through packages of this module. Each has the chain that leads there.
func (r *repository) reach(dir string) map[string]string {
	out := map[string]string{}
	var visit func(dir, chain string)
	visit = func(dir, chain string) {
		p := r.pkgs[dir]
		if p == nil {
			return
		}
		for i := range p.imports() {
			if _, ok := out[i]; ok {
				continue
			}
			out[i] = chain + " -> " + i
			if next, ok := r.local(i); ok {
				visit(next, chain+" -> "+next)
			}
		}
	}
	visit(dir, dir)
	return out
}

// usesCgo reports whether a package has files that import "C".
func (p *pkg) usesCgo() bool {
	_, ok := p.imports()["C"]
	return ok
}

// buildsWithoutCgo returns an error if no file of the folder is left when cgo is off.
func (r *repository) buildsWithoutCgo(dir string) error {
	c := build.Default
	c.CgoEnabled = false
	_, err := c.ImportDir(filepath.Join(r.root, filepath.FromSlash(dir)), 0)
	return err
}
