package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/pairstream/pairstream/internal/base/display"
)

// Setting describes one variable.
type Setting struct {
	Variable string
	Form     string // form of its value in a file
	Default  string
	Meaning  string
	Required bool
	Secret   bool
}

// logValuer is implemented by types with their own form in logs. Such a setting counts as a secret.
var logValuer = reflect.TypeFor[slog.LogValuer]()

// Settings lists the settings of structs, which may be values or pointers, in order. A setting that several structs
// share is listed once, unless they describe it differently.
func Settings(structs ...any) []Setting {
	var out []Setting
	seen := map[Setting]bool{}
	for _, s := range structs {
		for _, f := range fieldsOf(structType(s)) {
			if !seen[f.Setting] {
				seen[f.Setting] = true
				out = append(out, f.Setting)
			}
		}
	}
	return out
}

// table returns a Markdown table of settings.
func table(settings []Setting) string {
	var b strings.Builder
	b.WriteString("| variable | form | default | meaning |\n|---|---|---|---|\n")
	for _, s := range settings {
		value := ""
		switch {
		case s.Required:
			value = "*required*"
		case s.Default != "":
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Variable, s.Form, cell(value), cell(s.Meaning))
	}
	return b.String()
}

// cell escapes a text for a cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// Redacted returns a struct of settings as a value for slog: the value of every variable, with those of secrets hidden.
func Redacted(cfg any) slog.Value {
	v := reflect.ValueOf(cfg)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var attrs []slog.Attr
	for _, f := range fieldsOf(v.Type()) {
		attrs = append(attrs, slog.Attr{Key: f.Variable, Value: shown(v.FieldByIndex(f.index), f.Secret)})
	}
	return slog.GroupValue(attrs...)
}

// shown returns the form of a value in logs. An empty secret is shown as empty.
func shown(v reflect.Value, secret bool) slog.Value {
	switch {
	case secret && v.IsZero():
		return slog.StringValue("")
	case secret:
		return slog.StringValue(display.Hidden)
	case v.Type() == reflect.TypeFor[[]string]():
		return slog.StringValue(display.Redacted(strings.Join(v.Interface().([]string), ",")))
	case v.Type() == reflect.TypeFor[string]():
		return slog.StringValue(display.Redacted(v.String()))
	}
	return slog.AnyValue(v.Interface())
}

func structType(s any) reflect.Type {
	t := reflect.TypeOf(s)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
