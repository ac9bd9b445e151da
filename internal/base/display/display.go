// Package display makes texts fit to be shown and written down. [Redacted] takes away the passwords that URLs carry,
// and [Printable] the characters that control a terminal or turn a text around. Both return other texts as they are.
// [Attr] does the first for a logger.
package display

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"unicode"
)

// Hidden stands for what may not be shown.
const Hidden = "***"

var (
	// slashes ends the scheme of a URL, which may itself be escaped as the option of another.
	slashes = regexp.MustCompile(`(?i)(?::|%(?:25)*3a)(?:/|%(?:25)*2f){2}`)
	// ending begins what lies behind the host.
	ending = regexp.MustCompile(`(?i)[/?#&]|%(?:25)*2f|%(?:25)*3f|%(?:25)*23`)
	// at ends the user and the password.
	at = regexp.MustCompile(`(?i)@|%(?:25)*40`)
	// port is a host with a port, or a host alone.
	port = regexp.MustCompile(`(?i)^(?:\[[^\]]*\]|[^:\[\]%]*)(?:(?::|%(?:25)*3a)[0-9]*)?$`)
	// secret is an option of a URL whose value opens something.
	secret = regexp.MustCompile(`(?i)((?:[?&;]|%(?:25)*3f|%(?:25)*26)(?:[a-z0-9_.-]*(?:password|passwd|secret(?:[_-]?key)?|token|signature|credential|api[_-]?key|access[_-]?key(?:[_-]?id)?)|sig|key)(?:=|%(?:25)*3d))[^&;#\s"%]+`)
)

// Redacted hides the user, the password and the options that are secrets of every URL in a text. A URL with an escaped
// URL in it loses the passwords of both.
func Redacted(text string) string {
	var out strings.Builder
	for {
		place := slashes.FindStringIndex(text)
		if place == nil {
			break
		}
		out.WriteString(text[:place[1]])
		text = text[place[1]:]
		if n := userinfo(text); n > 0 {
			out.WriteString(Hidden)
			text = text[n:]
		}
	}
	out.WriteString(text)
	return secret.ReplaceAllString(out.String(), "${1}"+Hidden)
}

// userinfo returns the length of the user and the password that rest begins with; rest lies behind the slashes of a
// URL. A password with a slash in it ends where the URL's last @ stands.
func userinfo(rest string) int {
	whole := rest
	if next := slashes.FindStringIndex(whole); next != nil { // of the next URL in a list
		whole = whole[:next[0]]
	}
	if n := strings.IndexFunc(whole, func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '<' || r == '>' }); n >= 0 {
		whole = whole[:n]
	}
	authority := whole
	if end := ending.FindStringIndex(whole); end != nil {
		authority = whole[:end[0]]
	}
	for _, part := range []string{authority, whole} {
		if ats := at.FindAllStringIndex(part, -1); ats != nil {
			return ats[len(ats)-1][0]
		}
		if port.MatchString(authority) {
			break
		}
	}
	return 0
}

// Printable replaces what a stranger wrote to control the terminal or to turn a text around.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Attr lets a handler of slog write no passwords of URLs: it is the ReplaceAttr of its options.
func Attr(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		text = fmt.Sprintf("%+v", a.Value.Any())
	default: // numbers, times and durations; the attributes of a group come one by one
		return a
	}
	if shown := Redacted(text); shown != text {
		a.Value = slog.StringValue(shown)
	}
	return a
}
