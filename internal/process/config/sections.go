package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/process/recipe"
)

// Forms of a setting's value in a file.
const (
	formSwitch   = "true or false"
	formWhole    = "whole number"
	formNumber   = "number"
	formDuration = "duration"
	formText     = "text"
	formList     = "list"
	formMixed    = "text or numbers" // a type with a form of its own
)

func formOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return formDuration
	}
	switch t.Kind() {
	case reflect.Bool:
		return formSwitch
	case reflect.Float32, reflect.Float64:
		return formNumber
	case reflect.String:
		return formText
	case reflect.Slice:
		return formList
	case reflect.Struct:
		return formMixed
	}
	return formWhole
}

// Section lists the settings that one part of the program reads. The section without a name has those that several parts
// read, which a file names above its sections.
type Section struct {
	Name     string
	Settings []Setting
	readers  map[string][]string // by variable: the sections of all parts that read the setting
}

// Sections splits the settings of a struct. Each of its fields is a part of the program, and its name in lower case that of
// the section. All parts read the settings of a field with the tag section:"-".
func Sections(s any) []Section {
	t := structType(s)
	shared := Section{readers: map[string][]string{}}
	var parts []Section
	for f := range t.Fields() {
		part := Section{Name: strings.ToLower(f.Name), Settings: Settings(reflect.New(f.Type).Interface()), readers: shared.readers}
		if f.Tag.Get("section") == "-" {
			shared.Settings = append(shared.Settings, part.Settings...)
			continue
		}
		for _, s := range part.Settings {
			shared.readers[s.Variable] = append(shared.readers[s.Variable], part.Name)
		}
		parts = append(parts, part)
	}
	for i := range parts {
		var own []Setting
		for _, s := range parts[i].Settings {
			switch readers := shared.readers[s.Variable]; {
			case len(readers) == 1:
				own = append(own, s)
			case readers[0] == parts[i].Name:
				shared.Settings = append(shared.Settings, s)
			}
		}
		parts[i].Settings = own
	}
	return append([]Section{shared}, parts...)
}

// Tables returns a Markdown table for each section.
func Tables(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		title := "`[" + s.Name + "]`"
		if s.Name == "" {
			title = "Above the sections"
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n", title, table(s.Settings))
	}
	return b.String()
}

// Names returns the table that files are checked with, which every program has in it: a line for each setting, with its
// form and its sections.
func Names(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		for _, one := range s.Settings {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", one.Variable, one.Form, strings.Join(s.readers[one.Variable], ","))
		}
	}
	return b.String()
}

//go:embed settings.tsv
var names string

// allowed says where a file may name a setting, and in which form.
type allowed struct {
	form     string
	sections []string
}

// places returns the settings that a file may name, and the sections.
func places() (settings map[string]allowed, sections []string) {
	settings = map[string]allowed{}
	for line := range strings.Lines(names) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		p := allowed{form: columns[1]}
		if columns[2] != "" {
			p.sections = strings.Split(columns[2], ",")
		}
		for _, s := range p.sections {
			if !slices.Contains(sections, s) {
				sections = append(sections, s)
			}
		}
		settings[columns[0]] = p
	}
	return settings, sections
}

// File returns a file with all settings: those of a recipe with its values, the others as comments with their defaults.
// The recipe derives further values from those in the file, so they are comments as well. Without a recipe all are.
func File(sections []Section, name string, environ map[string]string) (string, error) {
	values := map[string]recipe.Value{}
	if name != "" {
		all, err := recipe.Of(name, environ)
		if err != nil {
			return "", err
		}
		for _, v := range all {
			values[v.Variable] = v
		}
		values[recipe.Variable] = recipe.Value{Value: name}
	}
	var b strings.Builder
	b.WriteString("# Settings for `pairstream --config FILE`. The environment wins over them. `pairstream settings --check FILE` finds mistakes.\n")
	for _, s := range sections {
		if s.Name != "" {
			fmt.Fprintf(&b, "\n[%s]\n", s.Name)
		}
		for _, one := range s.Settings {
			v, set := values[one.Variable]
			mark, value, about := "# ", one.Default, one.Meaning
			if set {
				value = v.Value
			}
			if v.Place != "" {
				about += " (" + v.Place + ")"
			}
			switch {
			case set && v.Derived():
				about += "; without this line the recipe derives it"
			case set:
				mark = ""
			}
			fmt.Fprintf(&b, "\n# %s\n%s%s = %s\n", about, mark, strings.ToLower(one.Variable), one.toml(value))
		}
	}
	return b.String(), nil
}

// toml writes a value as a file has it.
func (s Setting) toml(value string) string {
	switch s.Form {
	case formSwitch, formWhole, formNumber:
		return value
	case formList:
		if value == "" {
			return "[]"
		}
	}
	return quoted(value)
}

// quoted returns a basic string of TOML. Values of recipes and defaults have no control characters.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
