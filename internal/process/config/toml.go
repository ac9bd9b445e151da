package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/pairstream/pairstream/internal/base/display"
)

// mostFindings bounds the problems that are listed of a file, far above the number of settings.
const mostFindings = 1000

// parser collects the settings of a TOML file.
type parser struct {
	toml unstable.Parser

	places          map[string]allowed
	names, sections []string // to look for the nearest one in

	found    map[string]inFile // settings by variable, and settings of earlier builds
	opened   map[string]int    // line of each section's header
	section  string
	skip     bool // the section is unknown, which was said already
	findings []finding
	wrong    []string // variables in found whose value is of no use

	counted, line int // the line of an offset
}

// parseTOML returns the settings of a file, and its problems in the order of lines.
func parseTOML(raw []byte) (map[string]inFile, []finding) {
	p := parser{found: map[string]inFile{}, opened: map[string]int{}, line: 1}
	p.places, p.sections = places()
	p.names = slices.Sorted(maps.Keys(p.places))
	p.toml.Reset(bytes.TrimPrefix(raw, []byte("\ufeff")))
	for p.toml.NextExpression() {
		if len(p.findings) >= mostFindings {
			p.refuse(p.line, "%d problems up to here: the rest was not read", mostFindings)
			break
		}
		switch e := p.toml.Expression(); e.Kind {
		case unstable.Table:
			path, line := p.key(e)
			p.open(strings.Join(path, "."), line)
		case unstable.ArrayTable:
			path, line := p.key(e)
			p.open(strings.Join(path, "."), line)
			p.refuse(line, "[[%s]] is a list of sections, want [%[1]s]", short(strings.Join(path, ".")))
		default:
			p.assign(e)
		}
	}
	var syntax *unstable.ParserError
	if err := p.toml.Error(); errors.As(err, &syntax) {
		p.refuse(p.lineOf(p.toml.Range(syntax.Highlight)), "%s: want TOML, such as lr = 1e-4", display.Printable(syntax.Message))
	} else if err != nil {
		p.refuse(p.line, "%s", display.Printable(err.Error()))
	}
	p.finish()
	slices.SortStableFunc(p.findings, func(a, b finding) int { return a.line - b.line })
	return p.found, p.findings
}

func (p *parser) refuse(line int, format string, args ...any) {
	p.findings = append(p.findings, finding{line: line, text: fmt.Sprintf(format, args...)})
}

// lineOf returns the line of a place in the file. Places mostly come in order, so that counting takes one pass.
func (p *parser) lineOf(r unstable.Range) int {
	if int(r.Offset) < p.counted {
		p.counted, p.line = 0, 1
	}
	p.line += bytes.Count(p.toml.Data()[p.counted:r.Offset], []byte("\n"))
	p.counted = int(r.Offset)
	return p.line
}

// key returns the parts of the key of an expression, and its line.
func (p *parser) key(e *unstable.Node) (path []string, line int) {
	for it := e.Key(); it.Next(); {
		if path == nil {
			line = p.lineOf(it.Node().Raw)
		}
		path = append(path, string(it.Node().Data))
	}
	return path, line
}

// open begins a section.
func (p *parser) open(name string, line int) {
	p.section, p.skip = name, !slices.Contains(p.sections, name)
	_, isSetting := p.places[strings.ToUpper(name)]
	switch before := p.opened[name]; {
	case before > 0 && !p.skip:
		p.refuse(line, "[%s] begins again: line %d has it already", short(name), before)
	case before > 0:
	case isSetting:
		p.refuse(line, "%s is a setting, not a section: write %[1]s = ...", short(name))
	case p.skip:
		p.refuse(line, "no section is called [%s]: the nearest name is [%s]", short(name), nearest(name, p.sections))
	}
	if p.opened[name] == 0 {
		p.opened[name] = line
	}
}

// assign reads a setting, or a section in one of TOML's other forms: section.key = value, and section = {key = value}.
func (p *parser) assign(e *unstable.Node) {
	path, line := p.key(e)
	value := e.Value()
	switch {
	case p.section != "" && p.skip:
	case p.section != "" || !slices.Contains(p.sections, path[0]):
		p.set(p.section, path, line, value)
	case len(path) > 1:
		p.set(path[0], path[1:], line, value)
	case value.Kind == unstable.InlineTable:
		p.open(path[0], line)
		for it := value.Children(); it.Next(); {
			inner, at := p.key(it.Node())
			p.set(path[0], inner, at, it.Node().Value())
		}
		p.section = ""
	default:
		p.refuse(line, "%s is a section: write [%[1]s] above its settings", path[0])
	}
}

// set reads a setting.
func (p *parser) set(section string, path []string, line int, value *unstable.Node) {
	name := strings.Join(path, ".")
	variable := strings.ToUpper(name)
	at, known := p.places[variable]
	_, gone := removals[variable]
	before, again := p.found[variable]
	switch {
	case !known && !gone || name != strings.ToLower(name):
		p.refuse(line, "no setting is called %s: the nearest name is %s", short(name), strings.ToLower(nearest(variable, p.names)))
		return
	case again:
		p.refuse(line, "%s is set again: line %d sets it already", name, before.line)
		return
	case known && section != "" && !slices.Contains(at.sections, section):
		p.refuse(line, "%s does not belong in [%s]: write it %s", name, section, at.where())
	}
	text, ok := at.text(value)
	switch {
	case !ok && known:
		p.refuse(line, "%s is %s, want %s", name, kinds[value.Kind], wants[at.form])
	case strings.ContainsFunc(text, unicode.IsControl):
		p.refuse(line, "%s has a line end or another control character: take it out", name)
	default:
		p.found[variable] = inFile{text, line}
		return
	}
	p.found[variable] = inFile{line: line} // so that a second one is told of
	p.wrong = append(p.wrong, variable)
}

// where tells where a setting belongs.
func (p allowed) where() string {
	where := "above the first section"
	for _, s := range p.sections {
		where += " or in [" + s + "]"
	}
	return where
}

// finish takes the settings out that are of no use, and tells of those of earlier builds.
func (p *parser) finish() {
	old := map[string]string{}
	for variable, s := range p.found {
		old[variable] = s.value
	}
	for _, variable := range slices.Sorted(maps.Keys(p.found)) {
		if r, gone := removals[variable]; gone {
			line, _, _ := RemovedSetting(variable, old)
			if line == "" {
				line = "the setting was removed: " + r.instead + "; take it out"
			}
			p.refuse(p.found[variable].line, "%s: %s", strings.ToLower(variable), line)
			p.wrong = append(p.wrong, variable)
		}
	}
	for _, variable := range p.wrong {
		delete(p.found, variable)
	}
}

// kinds names the values of TOML.
var kinds = map[unstable.Kind]string{
	unstable.String: "text", unstable.Integer: "a whole number", unstable.Float: "a number with a fraction", unstable.Bool: "true or false",
	unstable.Array: "a list", unstable.InlineTable: "a table", unstable.DateTime: "a time", unstable.LocalDateTime: "a time",
	unstable.LocalDate: "a date", unstable.LocalTime: "a time",
}

// wants says what a file has in each form.
var wants = map[string]string{
	formSwitch: "true or false, without quotes", formWhole: "a whole number, without quotes", formNumber: "a number, without quotes",
	formDuration: `a duration in quotes, such as "250ms", "10s" or "5m"`, formText: "text in quotes",
	formList:  `a list of texts without commas, such as ["one", "two"]`,
	formMixed: "text in quotes, a number, or a list of either",
}

// text returns a value of the setting as the environment would have it. ok is false if the value has another form.
func (p allowed) text(n *unstable.Node) (text string, ok bool) {
	raw := string(n.Data)
	numbers := p.form == formNumber || p.form == formMixed || p.form == ""
	switch n.Kind {
	case unstable.String:
		if p.form == formDuration {
			_, err := time.ParseDuration(raw)
			return raw, err == nil
		}
		return raw, p.form == formText || p.form == formList || p.form == formMixed || p.form == ""
	case unstable.Bool:
		return raw, p.form == formSwitch || p.form == ""
	case unstable.Integer:
		whole, parsed := new(big.Int).SetString(strings.ReplaceAll(raw, "_", ""), 0)
		return whole.String(), parsed && (numbers || p.form == formWhole)
	case unstable.Float:
		return strings.ReplaceAll(raw, "_", ""), numbers && !strings.ContainsAny(raw, "in") // inf and nan
	case unstable.Array:
		var elements []string
		for it := n.Children(); it.Next(); {
			element, ok := allowed{form: p.form}.text(it.Node())
			if !ok || p.form == formList && strings.Contains(element, ",") || it.Node().Kind == unstable.Array {
				return "", false
			}
			elements = append(elements, element)
		}
		return strings.Join(elements, ","), p.form == formList || p.form == formMixed || p.form == ""
	default: // tables, dates and times
		return "", false
	}
}

// mostNamed bounds the part of a stranger's name that is printed and compared.
const mostNamed = 64

// short returns a name for an error.
func short(name string) string {
	if len(name) > mostNamed {
		name = name[:mostNamed] + "..."
	}
	return display.Printable(name)
}

// nearest returns the name that takes the fewest insertions, deletions and replacements of a letter.
func nearest(name string, names []string) string {
	name = name[:min(len(name), mostNamed)]
	return slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
