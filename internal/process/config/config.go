// Package config reads settings from the environment, and describes them for people.
//
// A settings struct has exported fields with the tags of caarlos0/env (env, envDefault, envPrefix), and two of ours:
// desc describes the setting, and secret:"true" keeps its value out of logs and errors. [Parse] fills such a struct,
// [Redacted] prepares it for the log, and [Tables] are those of docs/settings.md, so that none of the three can
// contradict another. Passwords in URLs appear in no log and no error, and [Parse] refuses control characters.
//
// A file in TOML may give the same settings (see [Use]). What may stand in it follows from the same structs: [Sections]
// splits them, and every program has [Names] of them in it, also one without the stages' structs. The environment wins
// over the file, the file over the recipe, and the recipe over defaults.
//
// Cores know no variables: their errors name fields of their options (see internal/base/invalid). A settings struct has
// fields of the same names, and [Variables] replaces them by their variables.
//
// The same environment always gives the same result and the same errors in the same order. Only [Environ] reads the
// process's environment; everything else is a function of its arguments, and of the file of [Use] where errors name lines.
package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/caarlos0/env/v11"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/process/recipe"
)

// Environ returns the process's environment and, where it has none, the settings of the file of [Use], in the form that
// [Parse] takes. An empty variable counts as not set.
func Environ() map[string]string {
	environ := env.ToMap(os.Environ())
	for variable, s := range inUse.settings {
		if environ[variable] == "" {
			environ[variable] = s.value
		}
	}
	return environ
}

// Parse fills a T from environ and, for unset variables, from its recipe (see internal/process/recipe). A setting that
// does not parse is an error of one line with the variable, its value and the wanted form; several are joined. Then
// Parse calls Validate() error of every struct of settings that has it, T first, then the structs in it.
func Parse[T any](environ map[string]string) (T, error) {
	var none T
	cfg, err := fill[T](environ)
	if err == nil {
		err = validate(reflect.ValueOf(&cfg).Elem(), "")
	}
	if err != nil {
		return none, redacted(inUse.located(environ, err))
	}
	return cfg, nil
}

// fill is Parse without Validate.
func fill[T any](environ map[string]string) (cfg T, err error) {
	environ, err = recipe.Overlay(environ)
	if err != nil {
		return cfg, err
	}
	if err := legible(reflect.TypeFor[T](), environ); err != nil {
		return cfg, err
	}
	if err := env.ParseWithOptions(&cfg, parseOptions(environ, "")); err != nil {
		return cfg, explain(reflect.TypeFor[T](), environ, err)
	}
	return cfg, nil
}

// legible refuses values with control characters, which would end a line of run.env or steer a terminal, and values
// with a redacted password.
func legible(t reflect.Type, environ map[string]string) error {
	var problems []error
	for _, f := range fieldsOf(t) {
		value := environ[f.Variable]
		shown := strconv.Quote(display.Redacted(value))
		if f.Secret {
			shown = display.Hidden
		}
		switch {
		case strings.ContainsFunc(value, unicode.IsControl):
			problems = append(problems, fmt.Errorf("%s=%s: it has a line end or another control character: take it out", f.Variable, shown))
		case strings.Contains(value, "://"+display.Hidden):
			problems = append(problems, fmt.Errorf("%s=%s: its password was left out where it was written down: set %s again", f.Variable, shown, f.Variable))
		}
	}
	return joinOnce(problems)
}

// redacted removes the passwords in URLs from the text of an error.
func redacted(err error) error {
	if text := display.Redacted(err.Error()); text != err.Error() {
		return renamed{text, err}
	}
	return err
}

func parseOptions(environ map[string]string, prefix string) env.Options {
	if environ == nil {
		environ = map[string]string{} // nil would mean the process's environment
	}
	return env.Options{
		Environment: environ,
		Prefix:      prefix,
		FuncMap: map[reflect.Type]env.ParserFunc{ // the library's own take 32 bits only
			reflect.TypeFor[int]():  func(v string) (any, error) { n, err := strconv.ParseInt(v, 10, 0); return int(n), err },
			reflect.TypeFor[uint](): func(v string) (any, error) { n, err := strconv.ParseUint(v, 10, 0); return uint(n), err },
		},
	}
}

// explain finds the settings that made env fail. env's errors name the Go field, which may occur in several structs,
// and not the variable. So each field is parsed again separately.
func explain(t reflect.Type, environ map[string]string, whole error) error {
	var problems []error
	for _, f := range fieldsOf(t) {
		alone := reflect.StructOf([]reflect.StructField{{Name: f.field.Name, Type: f.field.Type, Tag: f.field.Tag}})
		err := env.ParseWithOptions(reflect.New(alone).Interface(), parseOptions(environ, f.prefix))
		if err != nil {
			problems = append(problems, f.problem(environ, err))
		}
	}
	if len(problems) == 0 { // a field whose type env cannot parse, not an error in the environment
		return fmt.Errorf("parsing settings: %w", whole)
	}
	return joinOnce(problems)
}

// problem returns the line for a field that does not parse.
func (f field) problem(environ map[string]string, err error) error {
	value := environ[f.Variable]
	if value == "" {
		value = f.Default
	}
	var file env.LoadFileContentError
	var parse env.ParseError
	switch {
	case errors.As(err, &env.VarIsNotSetError{}):
		return fmt.Errorf("%s is not set: %s", f.Variable, f.Meaning)
	case errors.As(err, &env.EmptyVarError{}):
		return fmt.Errorf("%s is empty: %s", f.Variable, f.Meaning)
	case errors.As(err, &file):
		return fmt.Errorf("%s=%s: reading the file that it names: %w", f.Variable, strconv.Quote(file.Filename), file.Err)
	case f.Secret:
		return fmt.Errorf("%s=%s: want %s", f.Variable, display.Hidden, wanted(f.field.Type))
	case errors.As(err, &parse):
		err = parse.Err
	}
	want := wanted(f.field.Type)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s=%s: out of range, want %s", f.Variable, strconv.Quote(value), want)
	case want != "":
		return fmt.Errorf("%s=%s: want %s", f.Variable, strconv.Quote(value), want)
	}
	return fmt.Errorf("%s=%s: %w", f.Variable, strconv.Quote(value), err)
}

// wanted describes the form of a value of type t; it is empty for types whose errors describe it.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 250ms, 10s or 5m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Int8, reflect.Int16, reflect.Int32:
		bits := t.Bits()
		return fmt.Sprintf("a whole number from %d to %d", -int64(1)<<(bits-1), int64(1)<<(bits-1)-1)
	case reflect.Uint, reflect.Uint64:
		return "a whole number, not negative"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<t.Bits()-1)
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		if elem := wanted(t.Elem()); elem != "" {
			return "a comma-separated list, each element " + elem
		}
	}
	return ""
}

// field is one setting and its value.
type field struct {
	Setting
	field  reflect.StructField
	prefix string
	index  []int
}

// fieldsOf lists the settings of a struct and of the structs in it, in order.
func fieldsOf(t reflect.Type) []field { return appendFields(nil, t, "", nil) }

func appendFields(out []field, t reflect.Type, prefix string, index []int) []field {
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		at := append(append([]int(nil), index...), i)
		key, options, _ := strings.Cut(sf.Tag.Get("env"), ",")
		switch {
		case key == "-":
		case key != "":
			out = append(out, field{
				Setting: Setting{
					Variable: prefix + key,
					Form:     formOf(sf.Type),
					Default:  sf.Tag.Get("envDefault"),
					Meaning:  sf.Tag.Get("desc"),
					Required: isRequired(options) && sf.Tag.Get("envDefault") == "",
					Secret:   sf.Tag.Get("secret") == "true" || sf.Type.Implements(logValuer),
				},
				field: sf, prefix: prefix, index: at,
			})
		case sf.Type.Kind() == reflect.Struct:
			out = appendFields(out, sf.Type, prefix+sf.Tag.Get("envPrefix"), at)
		}
	}
	return out
}

func isRequired(options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == "required" || o == "notEmpty" {
			return true
		}
	}
	return false
}
