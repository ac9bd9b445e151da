package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/interpreter"

	"github.com/pairstream/pairstream/schemas"
)

// Facts are what is known of a pair. What a round does not need may be missing.
type Facts struct {
	Caption, Source string
	Meta            schemas.Columns
	Language        func(text string) string // asked only if a rule speaks of the language
	Width, Height   int
	Similarity      float64
}

// Verdict is that of one pair in one round.
type Verdict struct {
	Rule string // the first that the pair does not meet; empty: it meets all of the round
	Why  string // why the rule could not be evaluated; empty: it says no
}

// Dropped reports whether the pair does not meet a rule.
func (v Verdict) Dropped() bool { return v.Rule != "" }

// maxWhy bounds the bytes of a reason.
const maxWhy = 200

// Judge asks the rules of a round.
func (r *Rules) Judge(round Round, f *Facts) Verdict {
	for _, o := range r.rules {
		if o.round != round {
			continue
		}
		value, _, err := o.program.Eval(facts{f})
		if err != nil {
			return Verdict{Rule: o.name, Why: bounded(err.Error())}
		}
		kept, ok := value.Value().(bool)
		switch {
		case !ok:
			return Verdict{Rule: o.name, Why: bounded(fmt.Sprintf("the expression gives a %s, want true or false", value.Type().TypeName()))}
		case !kept:
			return Verdict{Rule: o.name}
		}
	}
	return Verdict{}
}

func bounded(why string) string {
	why = strings.ToValidUTF8(why, "?")
	if len(why) <= maxWhy {
		return why
	}
	cut := maxWhy
	for !utf8.RuneStart(why[cut]) {
		cut--
	}
	return why[:cut]
}

// facts gives expressions the values that they ask for.
type facts struct{ *Facts }

// Parent implements [interpreter.Activation].
func (facts) Parent() interpreter.Activation { return nil }

// ResolveName implements [interpreter.Activation].
func (f facts) ResolveName(name string) (any, bool) {
	switch name {
	case "caption":
		return f.Caption, true
	case "chars":
		return int64(utf8.RuneCountInString(f.Caption)), true
	case "words":
		return int64(len(strings.Fields(f.Caption))), true
	case "lang":
		if f.Language == nil {
			return "", true
		}
		return f.Language(f.Caption), true
	case "source":
		return f.Source, true
	case "meta":
		if f.Meta == nil {
			return map[string]any{}, true
		}
		return map[string]any(f.Meta), true
	case "width":
		return int64(f.Width), true
	case "height":
		return int64(f.Height), true
	case "aspect":
		return float64(max(f.Width, f.Height)) / float64(max(1, min(f.Width, f.Height))), true
	case "similarity":
		return f.Similarity, true
	}
	return nil, false
}
