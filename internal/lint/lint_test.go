package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// cores are the stages. The adapter of each core to the log is in the folder of that name beside it.
var cores = []string{"encoder", "indexer", "grouper", "discriminator", "trainer"}

const adapter = "service"

// above are the folders that internal knows nothing of, besides the cores.
var above = []string{"services", "lab"}

// operate is the wing that stages never import. Its packages in whole run the stages, and stand below the programs alone.
const operate = "internal/operate"

var whole = []string{
	operate + "/batches", operate + "/demo", operate + "/negatives", operate + "/pages", operate + "/pipeline", operate + "/rerun",
}

// cores returns the folders of the stages, without adapters.
func (r *repository) cores() []string {
	return slices.DeleteFunc(r.dirs(cores...), func(dir string) bool { return path.Base(dir) == adapter })
}

// pure lists the packages that build without cgo.
var pure = []string{
	"schemas", "internal/log/broker", "internal/log/kafka", "internal/log/stream", "internal/crawl/shard", "internal/content/imaging", "internal/content/jpeg", "internal/content/token", "internal/base/rng", "internal/model/safetensors",
	"internal/process/config", "internal/crawl/dataset", "internal/testing/golden", "grouper", "internal/demo/scenes", "internal/operate/capacity",
}

// kafkaClients maps modules that speak Kafka's protocol to the packages that may import them. Stages have one client.
// The embedded broker, its tests and the tests' cluster have one of another make. Of internal/log/stream only tests
// speak the protocol: [rooms] says so.
var kafkaClients = map[string][]string{
	"github.com/segmentio/kafka-go":      {"internal/log/kafka", "internal/log/stream", "examples/producer", "examples/scored"},
	"github.com/twmb/franz-go/pkg/kfake": {"internal/log/broker", "internal/log/stream"},
	"github.com/twmb/franz-go":           {"internal/log/broker", "internal/log/kafka", "internal/log/stream", "internal/testing/kafkatest"},
}

// kafkaClient returns the module of an import, the longest that fits. It returns "" if the import has nothing to do
// with Kafka.
func kafkaClient(importPath string) string {
	longest := ""
	for c := range kafkaClients {
		if (importPath == c || strings.HasPrefix(importPath, c+"/")) && len(c) > len(longest) {
			longest = c
		}
	}
	return longest
}

// below reports whether a folder is parent or lies in it.
func below(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

const (
	maxFileLines = 399
	maxFuncLines = 60
)

func TestImportsPointOneWay(t *testing.T) {
	r := load(t)
	for _, dir := range r.dirs(cores...) {
		core, rest, _ := strings.Cut(dir, "/")
		for i, chain := range r.reach(dir) {
			local, ok := r.local(i)
			if !ok {
				continue
			}
			top, _, _ := strings.Cut(local, "/")
			switch {
			case top == "services" || below(local, operate):
				t.Errorf("core imports what runs or watches it: %s", chain)
			case slices.Contains(cores, top) && top != core:
				t.Errorf("core imports another core: %s", chain)
			case rest != adapter && local == core+"/"+adapter:
				t.Errorf("core imports its adapter: %s", chain)
			}
		}
	}
	for i, file := range r.pkgs["schemas"].imports() {
		if _, ok := r.local(i); ok {
			t.Errorf("%s imports %s: schemas stands below everything else", file, i)
		}
	}
	runsStages := map[string]bool{}
	for _, dir := range r.dirs("internal") {
		for i, file := range r.pkgs[dir].imports() {
			local, ok := r.local(i)
			top, _, _ := strings.Cut(local, "/")
			switch {
			case !ok:
			case slices.Contains(whole, dir) && slices.Contains(cores, top):
				runsStages[dir] = true
			case slices.Contains(above, top) || slices.Contains(cores, top):
				t.Errorf("%s imports %s: internal stands below cores and services", file, i)
			case slices.Contains(whole, local) && !slices.Contains(whole, dir):
				t.Errorf("%s imports %s: only what runs the stages does", file, i)
			}
		}
	}
	for _, dir := range whole {
		if !runsStages[dir] {
			t.Errorf("%s imports no stage any more: correct the list of what runs them", dir)
		}
	}
}

// The lab is a module of its own that imports the product, and its tests and go.mod are not the product's.
func TestProductNeverImportsTheLab(t *testing.T) {
	r := load(t)
	if len(r.dirs("lab")) < 5 {
		t.Fatalf("found %d packages of the lab: where is it?", len(r.dirs("lab")))
	}
	for _, problem := range r.importsOfTheLab() {
		t.Error(problem)
	}
	gomod := read(t, r.root, "go.mod")
	for line := range strings.Lines(gomod) { // prose brings gonum, which draws nothing
		if strings.Contains(line, r.module+"/lab") || strings.Contains(line, "gonum.org/") && !strings.Contains(line, "// indirect") ||
			strings.Contains(line, "gonum.org/v1/plot") {
			t.Errorf("go.mod of the product names what only the lab may use: %s", strings.TrimSpace(line))
		}
	}
}

// importsOfTheLab lists the files outside the lab that import it, tests included.
func (r *repository) importsOfTheLab() []string {
	var out []string
	for dir, p := range r.pkgs {
		if below(dir, "lab") {
			continue
		}
		for _, f := range p.files {
			for _, i := range f.imports {
				if local, ok := r.local(i); ok && below(local, "lab") {
					out = append(out, fmt.Sprintf("%s/%s imports %s: the product stands without the lab", dir, f.name, i))
				}
			}
		}
	}
	return out
}

// The tests' cluster, and the harnesses like it, are for tests.
func TestNoProgramReachesTestPackages(t *testing.T) {
	r := load(t)
	for _, dir := range r.dirs(append(above, cores...)...) {
		for i, chain := range r.reach(dir) {
			if local, ok := r.local(i); ok && below(local, "internal/testing") || i == "testing" {
				t.Errorf("a program reaches a package for tests: %s", chain)
			}
		}
	}
}

func TestCoresArePure(t *testing.T) {
	r := load(t)
	for _, dir := range r.cores() {
		for i, chain := range r.reach(dir) {
			switch {
			case kafkaClient(i) != "" || i == r.module+"/internal/log/stream" || i == r.module+"/internal/log/kafka" || i == r.module+"/internal/log/broker":
				t.Errorf("core reaches the log: %s", chain)
			case strings.HasPrefix(i, "github.com/caarlos0/env") || i == r.module+"/internal/process/config":
				t.Errorf("core reads settings: %s", chain)
			case i == r.module+"/internal/crawl/shard" && dir != "trainer/bootstrap":
				t.Errorf("core reads images: %s", chain)
			}
		}
		for _, f := range r.pkgs[dir].files {
			if f.test {
				continue
			}
			for _, i := range f.imports {
				if i == "C" {
					t.Errorf("%s/%s imports \"C\"", dir, f.name)
				}
			}
			for _, problem := range impurities(f) {
				t.Error(problem)
			}
		}
	}
}

// impure lists the functions that make a result depend on more than the arguments.
var impure = map[string][]string{
	"os":   {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
	"time": {"Now", "Since", "Until", "After", "Tick", "NewTimer", "NewTicker", "Sleep"},
	"math/rand/v2": {
		"Int", "IntN", "Int32", "Int32N", "Int64", "Int64N", "Uint32", "Uint64", "Float32", "Float64", "NormFloat64", "Perm", "Shuffle", "N",
	},
	"math/rand":   nil, // any use: it is the old one
	"crypto/rand": nil,
}

// impurities lists where a file makes its results depend on more than the arguments of its functions.
func impurities(f source) []string {
	var out []string
	names := map[string]string{} // identifier of an import: its path
	for i, spec := range f.ast.Imports {
		name := path.Base(strings.TrimSuffix(f.imports[i], "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = f.imports[i]
		if list, ok := impure[f.imports[i]]; ok && list == nil {
			out = append(out, fmt.Sprintf("%s imports %s", f.at(spec), f.imports[i]))
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && slices.Contains(impure[names[id.Name]], sel.Sel.Name) {
			out = append(out, fmt.Sprintf("%s uses %s.%s", f.at(n), id.Name, sel.Sel.Name))
		}
		return true
	})
	return out
}

func TestKafkaClientsStayInTheLog(t *testing.T) {
	r := load(t)
	for dir, p := range r.pkgs {
		for _, f := range p.files {
			for _, i := range f.imports {
				if c := kafkaClient(i); c != "" && !slices.Contains(kafkaClients[c], dir) {
					t.Errorf("%s/%s imports %s: only %s may", dir, f.name, i, strings.Join(kafkaClients[c], " and "))
				}
			}
		}
	}
}

// bindings lists the packages that may import "C". Without cgo, image/jpeg replaces the binding of libjpeg-turbo. The
// fork server is for tests alone.
var bindings = []string{"internal/model/torch", "internal/model/torch/testdevice", "internal/model/ranks/nccl", "internal/neighbors/faiss", "internal/neighbors/knn/cpu", "internal/neighbors/filemap", "internal/content/jpeg", "internal/testing/forkserver"}

// programsCarry are the packages with large clients of others' services. Programs, and what runs
// all stages, give them to the packages that use them.
var programsCarry = []string{"internal/crawl/shard/cloud", "internal/crawl/producer", "internal/log/tracing/otlp"}

func TestLargeClientsStayInPrograms(t *testing.T) {
	r := load(t)
	for _, dir := range r.dirs(append([]string{"internal", "lab/experiments"}, cores...)...) {
		if below(dir, "internal/testing") || slices.Contains(whole, dir) || slices.Contains(programsCarry, dir) {
			continue
		}
		for i, chain := range r.reach(dir) {
			if local, ok := r.local(i); ok && slices.Contains(programsCarry, local) {
				t.Errorf("a package that is not a program reaches a large client: %s", chain)
			}
		}
	}
}

func TestCgoStaysInBindings(t *testing.T) {
	r := load(t)
	for dir, p := range r.pkgs {
		if slices.Contains(bindings, dir) {
			continue
		}
		for _, f := range p.files {
			if slices.Contains(f.imports, "C") {
				t.Errorf("%s/%s imports \"C\": only %s may", dir, f.name, strings.Join(bindings, " and "))
			}
		}
	}
}

func TestPurePackagesNeedNoCgo(t *testing.T) {
	r := load(t)
	for _, dir := range r.dirs(pure...) {
		if err := r.buildsWithoutCgo(dir); err != nil && len(r.pkgs[dir].imports()) > 0 {
			t.Errorf("%s without cgo: %v", dir, err)
		}
		for i, chain := range r.reach(dir) {
			if local, ok := r.local(i); ok && r.pkgs[local] != nil && r.pkgs[local].usesCgo() && local != "internal/content/jpeg" {
				t.Errorf("needs cgo: %s", chain)
			}
		}
	}
}

func TestPackagesHaveDocComments(t *testing.T) {
	r := load(t)
	for dir, p := range r.pkgs {
		documented := slices.ContainsFunc(p.files, func(f source) bool {
			return f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != ""
		})
		if !documented {
			t.Errorf("%s: package %s has no doc comment", dir, p.files[0].ast.Name.Name)
		}
	}
}

func TestSizes(t *testing.T) {
	r := load(t)
	for dir, p := range r.pkgs {
		for _, f := range p.files {
			if f.test {
				continue
			}
			if f.lines > maxFileLines {
				t.Errorf("%s/%s has %d lines, want at most %d", dir, f.name, f.lines, maxFileLines)
			}
			for _, problem := range longFunctions(f) {
				t.Error(problem)
			}
		}
	}
}

func longFunctions(f source) []string {
	var out []string
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			if lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1; lines > maxFuncLines {
				out = append(out, fmt.Sprintf("%s: function %s has %d lines, want at most %d", f.at(fn), fn.Name.Name, lines, maxFuncLines))
			}
		}
	}
	return out
}

func TestLogKeysAreConstants(t *testing.T) {
	logging, keys := map[string]bool{}, 0
	for _, p := range load(t).pkgs {
		for _, f := range p.files {
			if f.test || below(p.dir, "internal/testing") {
				continue
			}
			problems, seen := literalKeys(f)
			for _, problem := range problems {
				t.Error(problem)
			}
			if keys += seen; seen > 0 {
				logging[p.dir] = true
			}
		}
	}
	if len(logging) < 10 || keys < 150 {
		t.Errorf("found %d keys of log lines in %d packages: the rule sees too little", keys, len(logging))
	}
}

// logMethods lists the methods of slog.Logger that take keys, with the index of the first key among their arguments.
var logMethods = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3, "With": 0,
}

// literalKeys lists the log calls of a file that spell out a key, and counts the keys of all.
func literalKeys(f source) (out []string, seen int) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || isSelector(call.Fun, "http", "Error") { // the answer of a server, not a log line
			return true
		}
		first, ok := logMethods[sel.Sel.Name]
		if !ok {
			return true
		}
		for i := first; i < len(call.Args); i += 2 {
			text, literal := stringLiteral(call.Args[i])
			if id, named := call.Args[i].(*ast.Ident); literal || named && strings.HasPrefix(id.Name, "key") {
				seen++
			}
			if literal {
				out = append(out, fmt.Sprintf("%s: log key %q is spelled out: want a constant of the package", f.at(call.Args[i]), text))
			}
		}
		return true
	})
	return out, seen
}

func stringLiteral(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// The rules must be able to fail, so this repository breaks each of them.
func TestRulesSeeWhatTheyForbid(t *testing.T) {
	r := load(t)
	r.pkgs["encoder"] = &pkg{dir: "encoder", files: []source{{name: "x.go", imports: []string{r.module + "/internal/broken"}}}}
	r.pkgs["internal/broken"] = &pkg{dir: "internal/broken", files: []source{
		{name: "a.go", imports: []string{r.module + "/internal/model/torch", "github.com/segmentio/kafka-go/sasl"}},
		{name: "a_test.go", test: true, imports: []string{r.module + "/trainer"}},
	}}
	r.pkgs["internal/used"] = &pkg{dir: "internal/used", files: []source{{name: "a_test.go", test: true, imports: []string{r.module + "/lab/bench"}}}}
	if got, want := r.importsOfTheLab(), []string{
		"internal/used/a_test.go imports " + r.module + "/lab/bench: the product stands without the lab",
	}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	r.pkgs["internal/model/torch"] = &pkg{dir: "internal/model/torch", files: []source{{name: "t.go", imports: []string{"C"}}}}
	reached := r.reach("encoder")
	for _, want := range []string{r.module + "/internal/model/torch", "github.com/segmentio/kafka-go/sasl", "C"} {
		if reached[want] == "" {
			t.Errorf("%s is not reached: %v", want, reached)
		}
	}
	if got, want := reached["C"], "encoder -> internal/broken -> internal/model/torch -> C"; got != want {
		t.Errorf("chain is %s, want %s", got, want)
	}
	if reached[r.module+"/trainer"] != "" {
		t.Error("test files count")
	}
	if !r.pkgs["internal/model/torch"].usesCgo() || r.pkgs["schemas"].usesCgo() {
		t.Error("cgo is not told from Go")
	}
	for name, want := range map[string]string{
		"github.com/segmentio/kafka-go":            "github.com/segmentio/kafka-go",
		"github.com/segmentio/kafka-go/sasl/plain": "github.com/segmentio/kafka-go",
		"github.com/segmentio/kafka-gopher":        "",
		"github.com/twmb/franz-go/pkg/kfake":       "github.com/twmb/franz-go/pkg/kfake",
		"github.com/twmb/franz-go/pkg/kgo":         "github.com/twmb/franz-go",
		r.module + "/internal/log/stream":          "",
	} {
		if got := kafkaClient(name); got != want {
			t.Errorf("%s belongs to %q, want %q", name, got, want)
		}
	}
}

func TestFileRulesSeeWhatTheyForbid(t *testing.T) {
	body := strings.Repeat("\n\t_ = 0", maxFuncLines-1) // with the lines of func and brace, one too many
	text := `package x

import (
	"crypto/rand"
	clock "time"
	"math/rand/v2"
)

type T struct{ Now int }

func (t T) f(log Logger, r *rand.Rand) {
	_, _, _ = clock.Now(), rand.IntN(3), r.IntN(3)
	_ = t.Now
	log.Info("done", "lane", 1, keyErr, "text")
	log.WarnContext(nil, "done", keyErr, "text", "seq", 1)
	log.With("of", 1).Info("done")
	http.Error(w, "no", 500)
}

func long() {` + body + "\n}\n\nfunc just() {" + body[len("\n\t_ = 0"):] + "\n}\n"
	f := must.Get(parse("x.go", []byte(text)))(t)
	spelled, keys := literalKeys(f)
	if keys != 5 {
		t.Errorf("found %d log keys, want 5", keys)
	}
	tests := []struct {
		name string
		got  []string
		want []string
	}{
		{"purity", impurities(f), []string{"x.go:4:2 imports crypto/rand", "x.go:12:12 uses clock.Now", "x.go:12:25 uses rand.IntN"}},
		{"log keys", spelled, []string{
			`x.go:14:19: log key "lane" is spelled out: want a constant of the package`, `x.go:15:47: log key "seq" is spelled out: want a constant of the package`,
			`x.go:16:11: log key "of" is spelled out: want a constant of the package`,
		}},
		{"functions", longFunctions(f), []string{"x.go:20:1: function long has 61 lines, want at most 60"}},
	}
	for _, tt := range tests {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: found %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
