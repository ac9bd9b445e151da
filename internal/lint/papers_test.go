package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// papersPage maps the papers to the code. Everything that it names must be there.
const papersPage = "docs/papers.md"

var (
	codeLink  = regexp.MustCompile("\\[`([a-z]+)\\.([A-Za-z0-9_.]+)`\\]\\(([^)]+)\\)")
	plainCode = regexp.MustCompile("`([a-z]+)\\.([A-Z][A-Za-z0-9_.]*)`")
	fileLink  = regexp.MustCompile(`\]\(([^)#:]+)\)`)
	// A setting, with its default in brackets where the page gives it.
	setting = regexp.MustCompile("`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)`(?: \\(`([^`]*)`\\))?")
)

// settings returns the defaults of all variables that the program reads from the environment.
func (r *repository) settings() map[string]string {
	out := map[string]string{}
	for _, p := range r.pkgs {
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if !ok || field.Tag == nil {
					return true
				}
				text, err := strconv.Unquote(field.Tag.Value)
				if err != nil {
					return true
				}
				tag := reflect.StructTag(text)
				if name, ok := tag.Lookup("env"); ok && name != "-" {
					out[name] = tag.Get("envDefault")
				}
				return true
			})
		}
	}
	return out
}

// declares reports whether a file declares a name. A name is a function, type, constant or variable, or Type.Method or
// Type.Field.
func (s source) declares(name string) bool {
	owner, member, ofType := strings.Cut(name, ".")
	found := false
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			if ofType {
				found = found || d.Name.Name == member && d.Recv != nil && receiver(d.Recv.List[0].Type) == owner
			} else {
				found = found || d.Name.Name == owner && d.Recv == nil
			}
			return false
		case *ast.TypeSpec:
			found = found || !ofType && d.Name.Name == owner || ofType && d.Name.Name == owner && hasField(d.Type, member)
		case *ast.ValueSpec:
			found = found || !ofType && slices.ContainsFunc(d.Names, func(id *ast.Ident) bool { return id.Name == owner })
		}
		return true
	})
	return found
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func hasField(e ast.Expr, name string) bool {
	s, ok := e.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return id.Name == name })
	})
}

// wrongInPage lists the names in a page of docs that do not exist.
func (r *repository) wrongInPage(page string) []string {
	var out []string
	wrong := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, m := range fileLink.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(r.root, "docs", filepath.FromSlash(m[1]))); err != nil {
			wrong("link to %s: no such file", m[1])
		}
	}
	for _, m := range codeLink.FindAllStringSubmatch(page, -1) {
		dir, name := filepath.Split(strings.TrimPrefix(m[3], "../"))
		p := r.pkgs[strings.TrimSuffix(dir, "/")]
		if p == nil {
			wrong("%s.%s: no package in %s", m[1], m[2], dir)
			continue
		}
		i := slices.IndexFunc(p.files, func(f source) bool { return f.name == name })
		if i < 0 || p.files[i].ast.Name.Name != m[1] || !p.files[i].declares(m[2]) {
			wrong("%s.%s is not declared in %s", m[1], m[2], m[3])
		}
	}
	for _, m := range plainCode.FindAllStringSubmatch(codeLink.ReplaceAllString(page, ""), -1) {
		wrong("%s.%s is no link to its file", m[1], m[2])
	}
	settings := r.settings()
	for _, m := range setting.FindAllStringSubmatch(page, -1) {
		value, known := settings[m[1]]
		switch {
		case !known:
			wrong("no setting is called %s", m[1])
		case m[2] != "" && m[2] != value:
			wrong("%s is said to be %s, and is %q", m[1], m[2], value)
		}
	}
	return out
}

func TestPapersPageNamesWhatIsThere(t *testing.T) {
	r := load(t)
	text := must.Get(os.ReadFile(filepath.Join(r.root, papersPage)))(t)
	page := string(text)
	for _, problem := range r.wrongInPage(page) {
		t.Errorf("%s: %s", papersPage, problem)
	}
	// The page has every hyper-parameter of the cores that decide what is learned. Live search decides nothing.
	mentioned := setting.FindAllStringSubmatch(page, -1)
	for _, core := range []string{"trainer", "grouper", "indexer"} {
		own := (&repository{pkgs: map[string]*pkg{core: r.pkgs[core]}}).settings()
		if len(own) < 5 {
			t.Errorf("the %s has %d settings: where are they?", core, len(own))
		}
		for name := range own {
			if !strings.HasPrefix(name, "LIVE_") && !slices.ContainsFunc(mentioned, func(m []string) bool { return m[1] == name }) {
				t.Errorf("%s: setting %s of the %s is missing", papersPage, name, core)
			}
		}
	}
}

func TestPageRulesSeeWhatTheyForbid(t *testing.T) {
	r := load(t)
	page := strings.Join([]string{
		"[`grouper.Walk`](../grouper/walk.go) and [`trainer.ITCOptions.Alpha`](../trainer/options.go), [`trainer.Trainer.Step`](../trainer/step.go)",
		"[`grouper.Run`](../grouper/walk.go) [`grouper.Walk`](../grouper/grit.go) [`walk.Walk`](../grouper/walk.go) [`grouper.Walk`](../walker/walk.go)",
		"`grouper.Walk` `ITC_ALPHA` (`0.5`) `BATCH_SIZE` `ITC_LAMBDA` (`0.3`) `ITC_BETA` [x](other.md) [y](operations.md#sizing)",
		"[`trainer.ITCOptions.Beta`](../trainer/options.go) [`trainer.Step`](../trainer/step.go)",
	}, "\n")
	want := []string{
		"link to ../walker/walk.go: no such file", "link to other.md: no such file",
		"grouper.Run is not declared in ../grouper/walk.go", "grouper.Walk is not declared in ../grouper/grit.go",
		"walk.Walk is not declared in ../grouper/walk.go", "grouper.Walk: no package in walker/",
		"trainer.ITCOptions.Beta is not declared in ../trainer/options.go", "trainer.Step is not declared in ../trainer/step.go",
		"grouper.Walk is no link to its file", `ITC_LAMBDA is said to be 0.3, and is "0.2"`, "no setting is called ITC_BETA",
	}
	if got := r.wrongInPage(page); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
