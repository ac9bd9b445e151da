package schemas

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// node is a YAML map in the order in which it is written. A value is a node, a list, a text, a number or a bool.
type node []entry

type entry struct {
	key   string
	value any
}

func writeYAML(b *bytes.Buffer, n node, indent int) {
	pad := strings.Repeat("  ", indent)
	for _, e := range n {
		fmt.Fprintf(b, "%s%s:", pad, scalar(e.key))
		writeValue(b, e.value, indent)
	}
}

func writeValue(b *bytes.Buffer, value any, indent int) {
	switch v := value.(type) {
	case node:
		b.WriteString("\n")
		writeYAML(b, v, indent+1)
	case []any:
		b.WriteString("\n")
		for _, item := range v {
			writeItem(b, item, indent+1)
		}
	case string:
		writeText(b, v, indent+1)
	default:
		fmt.Fprintf(b, " %v\n", v)
	}
}

// writeItem writes an element of a list. A map's first key stands beside the dash.
func writeItem(b *bytes.Buffer, item any, indent int) {
	pad := strings.Repeat("  ", indent)
	m, ok := item.(node)
	if !ok {
		fmt.Fprintf(b, "%s- %s\n", pad, scalar(fmt.Sprint(item)))
		return
	}
	var inner bytes.Buffer
	writeYAML(&inner, m, indent+1)
	fmt.Fprintf(b, "%s- %s", pad, strings.TrimPrefix(inner.String(), pad+"  "))
}

const textWidth = 110

// writeText writes a text beside its key if it is short, folded if it is long, and as it is if it has lines.
func writeText(b *bytes.Buffer, text string, indent int) {
	pad := strings.Repeat("  ", indent)
	switch {
	case strings.Contains(text, "\n"):
		b.WriteString(" |-\n")
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString(strings.TrimRight(pad+line, " ") + "\n")
		}
	case len(text) > textWidth-2*indent:
		b.WriteString(" >-\n")
		line := ""
		for word := range strings.SplitSeq(text, " ") {
			if line != "" && len(pad)+len(line)+1+len(word) > textWidth {
				fmt.Fprintf(b, "%s%s\n", pad, line)
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		fmt.Fprintf(b, "%s%s\n", pad, line)
	default:
		fmt.Fprintf(b, " %s\n", scalar(text))
	}
}

var (
	plain    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9_./-]$|^[A-Za-z]$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// scalar quotes a text unless every reader of YAML takes it for a text as it is.
func scalar(s string) string {
	if plain.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	return fmt.Sprintf("%q", s)
}
