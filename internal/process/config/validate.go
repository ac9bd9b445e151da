package config

import (
	"errors"
	"reflect"
	"strings"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// validate calls Validate of a struct of settings and of the structs in it, in order.
func validate(v reflect.Value, prefix string) error {
	var problems []error
	if s, ok := reflect.TypeAssert[interface{ Validate() error }](v.Addr()); ok {
		for _, problem := range leaves([]error{s.Validate()}) {
			problems = append(problems, variables(v.Type(), prefix, problem))
		}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && isNested(f) {
			problems = append(problems, validate(v.Field(i), prefix+f.Tag.Get("envPrefix")))
		}
	}
	return joinOnce(problems)
}

// joinOnce joins errors, each text once: structs that share a setting find the same fault in it.
func joinOnce(problems []error) error {
	var once []error
	seen := map[string]bool{}
	for _, err := range leaves(problems) {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			once = append(once, err)
		}
	}
	return errors.Join(once...)
}

// leaves splits joined errors.
func leaves(errs []error) []error {
	var out []error
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(joined.Unwrap()...).Error() {
			out = append(out, leaves(joined.Unwrap())...)
		} else if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Variables rewrites the errors of cores: where err names a field of options, the result names the variable of the
// settings' field of that name.
func Variables(settings any, err error) error { return variables(structType(settings), "", err) }

func variables(t reflect.Type, prefix string, err error) error {
	problems := problemsIn(err)
	if len(problems) == 0 {
		return err
	}
	names := map[invalid.Field]string{}
	nameFields(names, t, prefix, "")
	text := err.Error()
	for _, p := range problems {
		text = strings.Replace(text, p.Error(), p.Named(func(f invalid.Field) string {
			if variable := names[f]; variable != "" {
				return variable
			}
			return string(f)
		}), 1)
	}
	return renamed{text, err}
}

// renamed is an error with another text.
type renamed struct {
	text string
	err  error
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.err }

// problemsIn lists the problems with options that an error wraps, in order.
func problemsIn(err error) []*invalid.Problem {
	switch e := err.(type) { //nolint:errorlint // the function itself unwraps every error
	case *invalid.Problem:
		return []*invalid.Problem{e}
	case renamed: // already renamed
		return nil
	case interface{ Unwrap() error }:
		return problemsIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		var out []*invalid.Problem
		for _, part := range e.Unwrap() {
			out = append(out, problemsIn(part)...)
		}
		return out
	}
	return nil
}

// nameFields notes the variable of every field of t.
func nameFields(names map[invalid.Field]string, t reflect.Type, prefix, path string) {
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		if isNested(f) {
			nameFields(names, f.Type, prefix+f.Tag.Get("envPrefix"), path+f.Name+".")
		} else if key := variable(f); key != "" {
			names[invalid.Field(path+f.Name)] = prefix + key
		}
	}
}

// variable returns the name in a field's tag; empty: no variable sets the field.
func variable(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("env"), ",")
	if key == "-" {
		return ""
	}
	return key
}

// isNested reports whether the field is a struct of settings, not a setting.
func isNested(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.Struct && f.Tag.Get("env") == ""
}
