// Package invalid collects what is wrong with a struct of options.
//
// Options speak Go: a problem names their fields, and so a Go caller reads "Epochs is 0, want at least 1". Whoever set
// an environment variable must read its name instead. So a [Problem] remembers which of its words are fields, and
// internal/process/config puts variables in their place.
package invalid

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field is the name of a field in the options, with dots between the names of nested structs: "Schedule.Rate".
type Field string

// Problem is one thing that is wrong.
type Problem struct {
	format string
	args   []any
}

// Error names fields as they are called in Go.
func (p *Problem) Error() string { return p.Named(func(f Field) string { return string(f) }) }

// Named returns the text with other names for the fields.
func (p *Problem) Named(name func(Field) string) string {
	args := make([]any, len(p.args))
	for i, a := range p.args {
		args[i] = a
		if f, ok := a.(Field); ok {
			args[i] = name(f)
		}
	}
	return fmt.Sprintf(p.format, args...)
}

// List collects problems. Its zero value is empty.
type List struct{ problems []error }

// Want adds a problem unless ok. Arguments of type [Field] are names of fields.
func (l *List) Want(ok bool, format string, args ...any) {
	if !ok {
		l.problems = append(l.problems, &Problem{format, args})
	}
}

// Refuse adds a problem if bad.
func (l *List) Refuse(bad bool, format string, args ...any) { l.Want(!bad, format, args...) }

// Add adds errors that are not nil.
func (l *List) Add(errs ...error) { l.problems = append(l.problems, errs...) }

// Err returns the problems, joined; nil if there are none.
func (l *List) Err() error { return errors.Join(l.problems...) }

// Within adds a problem unless low <= value <= high.
func Within[T cmp.Ordered](l *List, f Field, value, low, high T) {
	l.Want(value >= low && value <= high, "%s is %v, want %v..%v", f, value, low, high)
}

// Numbered splits a setting of the form WORD:NUMBER whose word is one of these. Any other setting stays as it is, for
// the check of its words.
func Numbered[T ~string](value T, words ...T) (word T, number float64, ok bool) {
	before, after, _ := strings.Cut(string(value), ":")
	number, err := strconv.ParseFloat(after, 64)
	if err != nil || !slices.Contains(words, T(before)) {
		return value, 0, false
	}
	return T(before), number, true
}

// AtLeast adds a problem unless value >= low.
func AtLeast[T cmp.Ordered](l *List, f Field, value, low T) {
	l.Want(value >= low, "%s is %v, want at least %v", f, value, low)
}
