package lint

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// What asks whether an error matches context.Canceled passes over a failure that is joined with an interruption.
// Package interrupt alone tells them apart.
func TestInterruptionsAreToldFromFailures(t *testing.T) {
	const home = "internal/base/interrupt"
	r := load(t)
	asked := 0
	for _, p := range r.pkgs {
		for _, f := range p.files {
			if f.test {
				continue
			}
			problems := asksForCanceled(f)
			if asked += len(problems); p.dir == home {
				continue
			}
			for _, problem := range problems {
				t.Error(problem)
			}
		}
	}
	if asked == 0 {
		t.Errorf("nothing asks for context.Canceled, not even %s: the rule sees nothing", home)
	}
}

// asksForCanceled lists the calls of errors.Is that ask for context.Canceled.
func asksForCanceled(f source) (out []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && isSelector(call.Fun, "errors", "Is") && len(call.Args) == 2 && isSelector(call.Args[1], "context", "Canceled") {
			out = append(out, f.at(n)+": errors.Is(_, context.Canceled) passes over what failed besides: ask interrupt.Failure")
		}
		return true
	})
	return out
}

func isSelector(e ast.Expr, owner, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == owner
}

// A deferred function that goes through a named result meets nil when a return behind it sets the result to nil.
func TestDeferredFunctionsMeetNoNil(t *testing.T) {
	deferring := 0
	for _, p := range load(t).pkgs {
		for _, f := range p.files {
			problems, seen := nilInDeferred(f)
			deferring += seen
			for _, problem := range problems {
				t.Error(problem)
			}
		}
	}
	if deferring == 0 {
		t.Error("no deferred function goes through a named result: the rule sees nothing")
	}
}

// nilInDeferred lists the deferred functions that go through a named result which a later return sets to nil. It counts
// those that go through any.
func nilInDeferred(f source) (out []string, seen int) {
	function := func(t *ast.FuncType, body *ast.BlockStmt) {
		if t.Results == nil || body == nil {
			return
		}
		var results []string
		for _, field := range t.Results.List {
			for _, name := range field.Names {
				results = append(results, name.Name)
			}
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if _, inner := n.(*ast.FuncLit); inner {
				return false
			}
			d, ok := n.(*ast.DeferStmt)
			if !ok {
				return true
			}
			for i, name := range results {
				if !goesThrough(d, name) {
					continue
				}
				seen++
				if at := returnsNil(body, d, i); at != nil {
					out = append(out, fmt.Sprintf("%s: the deferred function goes through the result %s, which %s sets to nil: give it a variable of its own",
						f.at(d), name, path.Base(f.at(at))))
				}
			}
			return false
		})
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			function(d.Type, d.Body)
		case *ast.FuncLit:
			function(d.Type, d.Body)
		}
		return true
	})
	return out, seen
}

// goesThrough reports whether a statement selects a field or method of a variable.
func goesThrough(in ast.Node, name string) (found bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			id, ok := sel.X.(*ast.Ident)
			found = found || ok && id.Name == name
		}
		return true
	})
	return found
}

// returnsNil returns a return behind d that sets a result to nil, or nil.
func returnsNil(body *ast.BlockStmt, d *ast.DeferStmt, result int) (at ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		if _, inner := n.(*ast.FuncLit); inner {
			return false
		}
		if r, ok := n.(*ast.ReturnStmt); ok && at == nil && r.Pos() > d.End() && len(r.Results) > result {
			if id, ok := r.Results[result].(*ast.Ident); ok && id.Name == "nil" {
				at = r
			}
		}
		return true
	})
	return at
}

func TestErrorRulesSeeWhatTheyForbid(t *testing.T) {
	text := `package x

func a() (g *T, err error) {
	defer func() { err = g.Close() }()
	if err != nil {
		return nil, err
	}
	return g, errors.Is(err, context.Canceled)
}

func b() (g *T, err error) {
	if g == nil {
		return nil, err
	}
	defer func() { err = g.Close() }()
	return g, func() error { return nil }()
}
`
	f := must.Get(parse("x.go", []byte(text)))(t)
	if got, want := asksForCanceled(f), []string{"x.go:8:12: errors.Is(_, context.Canceled) passes over what failed besides: ask interrupt.Failure"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	want := []string{"x.go:4:2: the deferred function goes through the result g, which x.go:6:3 sets to nil: give it a variable of its own"}
	if got, seen := nilInDeferred(f); !slices.Equal(got, want) || seen != 2 {
		t.Errorf("found %q of %d, want %q", got, seen, want)
	}
}
