package console

import (
	"fmt"
	"html/template"
	"math"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/inspect"
)

// parsePages parses every page together with the frame that all share.
func parsePages() (map[string]*template.Template, error) {
	names, err := files.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*template.Template)
	for _, f := range names {
		if f.Name() == "base.html" || f.Name() == "parts.html" {
			continue
		}
		t, err := template.New(f.Name()).Funcs(functions).ParseFS(files, "templates/base.html", "templates/parts.html", path.Join("templates", f.Name()))
		if err != nil {
			return nil, fmt.Errorf("parsing the page %s: %w", f.Name(), err)
		}
		pages[f.Name()] = t
	}
	return pages, nil
}

var functions = template.FuncMap{
	"count":   func(n any) string { return inspect.Count(toInt(n)) },
	"percent": percent,
	"prob":    func(p any) string { return strconv.FormatFloat(toFloat(p), 'f', 3, 64) },
	"sim":     func(p any) string { return strconv.FormatFloat(toFloat(p), 'f', 2, 64) },
	"bytes":   bytesOf,
	"ago":     func(t time.Time) string { return inspect.Age(time.Since(t)) },
	"when":    func(t time.Time) string { return t.Local().Format("2 Jan 2006, 15:04:05") },
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"short":   func(id fmt.Stringer) string { return id.String()[:8] },
	"text":    visible,
	"clip":    clip,
	"plural":  plural,
	"add":     func(a, b any) int64 { return toInt(a) + toInt(b) },
	"list":    func(items ...any) []any { return items },
	"rate":    rate,
	"number":  compare.Number,
	"whole":   func(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) },
	"svg":     curveSVG,
	"key":     keyOf,
	"last":    lastNumbers,

	"documentation": func() string { return documentation(version.String()) },
}

var released = regexp.MustCompile(`^v\d+(\.\d+)+$`)

// documentation returns the address of a version's documentation, or main's for a build that is no release.
func documentation(of string) string {
	if !released.MatchString(of) {
		of = "main"
	}
	return "https://pairstream.github.io/pairstream/" + of + "/console/"
}

func toInt(n any) int64 { return int64(math.Round(toFloat(n))) }

func toFloat(n any) float64 {
	if v := reflect.ValueOf(n); v.CanInt() {
		return float64(v.Int())
	} else if v.CanFloat() {
		return v.Float()
	}
	return 0
}

// percent writes a share of a whole as people do: 12.3 %.
func percent(part, whole any) string {
	all := toFloat(whole)
	if all == 0 {
		return "–"
	}
	share := 100 * toFloat(part) / all
	switch {
	case share > 0 && share < 0.1:
		return "< 0.1 %"
	case share < 100 && share > 99.9:
		return "> 99.9 %"
	case share == math.Trunc(share):
		return fmt.Sprintf("%.0f %%", share)
	}
	return fmt.Sprintf("%.1f %%", share)
}

// bytesOf writes a size as people do: 1.4 MB.
func bytesOf(n any) string {
	size := toFloat(n)
	for _, unit := range []string{"bytes", "kB", "MB", "GB"} {
		if size < 1000 {
			if unit == "bytes" || size >= 100 {
				return fmt.Sprintf("%.0f %s", size, unit)
			}
			return fmt.Sprintf("%.1f %s", size, unit)
		}
		size /= 1000
	}
	return fmt.Sprintf("%.1f TB", size)
}

// visible replaces control and format characters, with which a stranger's text could hide or reverse text. It keeps the
// joiner of emoji.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == '\u200d':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r):
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// clip shortens a text for a list.
func clip(most int, s string) string {
	s = s[:min(len(s), 4*most+8)] // a rune has at most 4 bytes
	if runes := []rune(visible(s)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return visible(s)
}

// plural writes a number with its noun: 1 pair, 2 pairs.
func plural(n any, one, many string) string {
	if toInt(n) == 1 {
		return "1 " + one
	}
	return inspect.Count(toInt(n)) + " " + many
}

// rate writes pairs a second.
func rate(perSecond float64) string {
	if perSecond == 0 {
		return "0"
	}
	return inspect.Rate(perSecond)
}
