package filter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/interpreter"

	"github.com/pairstream/pairstream/schemas"
)

// Bounds on rules.
const (
	MaxBytes = 4 << 10 // of the text
	MaxRules = 16

	maxCost      = 100_000 // of one expression on one pair, as CEL counts
	maxRecursion = 64      // depth of an expression
)

// Round is the point at which a rule can be judged.
type Round int

// The rounds, in their order.
const (
	Words Round = iota // caption, source and columns
	Size               // of the image
	Match              // of image and caption
	rounds
)

// Rules are the rules of one text.
type Rules struct {
	text  string
	rules []rule
	lang  bool
}

type rule struct {
	name    string
	round   Round
	program cel.Program
}

// variable is a variable of expressions.
type variable struct {
	name  string
	kind  *cel.Type
	round Round
}

var variables = []variable{
	{"caption", cel.StringType, Words},                        // the caption
	{"chars", cel.IntType, Words},                             // characters of the caption
	{"words", cel.IntType, Words},                             // words of the caption, separated by white space
	{"lang", cel.StringType, Words},                           // language of the caption, such as "en" or "zh"; "" if unknown
	{"source", cel.StringType, Words},                         // where the pair was crawled
	{"meta", cel.MapType(cel.StringType, cel.DynType), Words}, // columns that came with the pair, such as meta.punsafe
	{"width", cel.IntType, Size},                              // pixels of the upright image
	{"height", cel.IntType, Size},                             // pixels of the upright image
	{"aspect", cel.DoubleType, Size},                          // the longer side by the shorter one, at least 1
	{"similarity", cel.DoubleType, Match},                     // cosine of the encoder's two vectors
}

var ruleName = regexp.MustCompile(`^\s*([a-z][a-z0-9_]{0,31})\s*:`)

// Parse reads rules: expressions separated by semicolons, each with a name and a colon before it. A single rule needs
// no name, and is then called "filter". An empty text has no rules. Errors name the line and the column in the text.
//
//	size: width >= 200 && aspect < 3.0; english: lang == "en"; safe: meta.punsafe < 0.1
func Parse(text string) (*Rules, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("rules of %d bytes, want at most %d", len(text), MaxBytes)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	r := &Rules{text: text}
	var problems []error
	parts := split(text)
	for _, p := range parts {
		source := text[p.from:p.to]
		name := "filter"
		if m := ruleName.FindStringSubmatchIndex(source); m != nil {
			name = source[m[2]:m[3]]
			p.from += m[1]
		} else if len(parts) > 1 {
			problems = append(problems, fmt.Errorf("%s: a rule without a name, want NAME: EXPRESSION", place(text, p.from)))
			continue
		}
		if slices.ContainsFunc(r.rules, func(o rule) bool { return o.name == name }) {
			problems = append(problems, fmt.Errorf("%s: a second rule with the name %s", place(text, p.from), name))
			continue
		}
		compiled, err := r.compile(env, name, text, p)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		r.rules = append(r.rules, compiled)
	}
	if len(r.rules) > MaxRules {
		problems = append(problems, fmt.Errorf("%d rules, want at most %d", len(r.rules), MaxRules))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	slices.SortStableFunc(r.rules, func(a, b rule) int { return int(a.round) - int(b.round) })
	return r, nil
}

func environment() (*cel.Env, error) {
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.ParserRecursionLimit(maxRecursion), cel.ParserExpressionSizeLimit(MaxBytes)}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("making the environment of rules: %w", err)
	}
	return env, nil
}

// compile checks the expression of a rule. It replaces the text before it by blanks, so that errors give positions in
// the whole text.
func (r *Rules) compile(env *cel.Env, name, text string, p part) (rule, error) {
	blank := strings.Map(func(c rune) rune {
		if c == '\n' {
			return c
		}
		return ' '
	}, text[:p.from])
	ast, issues := env.Compile(blank + text[p.from:p.to])
	if issues != nil && issues.Err() != nil {
		var problems []error
		for _, e := range issues.Errors() {
			where := place(text, p.from) // of an error in the whole expression
			if e.Location.Line() > 0 {
				where = fmt.Sprintf("line %d, column %d", e.Location.Line(), e.Location.Column()+1)
			}
			problems = append(problems, fmt.Errorf("%s, in rule %s: %s", where, name, e.Message))
		}
		return rule{}, errors.Join(problems...)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return rule{}, fmt.Errorf("%s, in rule %s: the expression gives a %s, want true or false", place(text, p.from), name, out)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return rule{}, fmt.Errorf("%s, in rule %s: %w", place(text, p.from), name, err)
	}
	out := rule{name: name, program: program}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		for _, v := range variables {
			if v.name == ref.Name {
				out.round = max(out.round, v.round)
			}
		}
		r.lang = r.lang || ref.Name == "lang"
	}
	return out, nil
}

// part is a rule's range in the text.
type part struct{ from, to int }

// split finds the rules between semicolons that are in no string.
func split(text string) []part {
	var out []part
	from := 0
	add := func(to int) {
		if strings.TrimSpace(text[from:to]) != "" {
			out = append(out, part{from, to})
		}
		from = to + 1
	}
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == ';':
			add(i)
		}
	}
	add(len(text))
	return out
}

// place describes the position of a byte in the text.
func place(text string, at int) string {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t') {
		at++
	}
	line := 1 + strings.Count(text[:at], "\n")
	column := 1 + len([]rune(text[strings.LastIndexByte(text[:at], '\n')+1:at]))
	return fmt.Sprintf("line %d, column %d", line, column)
}

// Empty reports whether there is no rule.
func (r *Rules) Empty() bool { return len(r.rules) == 0 }

// NeedsLanguage reports whether a rule uses the language.
func (r *Rules) NeedsLanguage() bool { return r.lang }

// Needs reports whether a rule is judged in a round.
func (r *Rules) Needs(round Round) bool {
	return slices.ContainsFunc(r.rules, func(o rule) bool { return o.round == round })
}

// Names returns the names of the rules, in the order in which they are judged.
func (r *Rules) Names() []string {
	var out []string
	for _, o := range r.rules {
		out = append(out, o.name)
	}
	return out
}

// Facts are the facts about a pair. Facts that a round does not need may be missing.
type Facts struct {
	Caption, Source string
	Meta            schemas.Columns
	Language        func(text string) string // called only if a rule uses the language
	Width, Height   int
	Similarity      float64
}

// Verdict is the result for one pair in one round.
type Verdict struct {
	Rule string // the first rule that the pair does not meet; empty: it meets all of the round
	Why  string // why the rule could not be evaluated; empty: it is false
}

// Dropped reports whether the pair does not meet a rule.
func (v Verdict) Dropped() bool { return v.Rule != "" }

// maxWhy bounds the bytes of a reason.
const maxWhy = 200

// Judge evaluates the rules of a round.
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

// facts gives expressions the values of their variables.
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
