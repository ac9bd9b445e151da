package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// section is a part of a document that this program writes.
type section struct {
	begin, end string
	text       func(byRow, avx2 map[string]*Result) string
}

var sections = []section{
	{"<!-- bench: begin -->\n", "<!-- bench: end -->", first(mainTable)},
	{"<!-- growth: begin -->\n", "<!-- growth: end -->", first(growthTable)},
	{"<!-- peers: begin -->\n", "<!-- peers: end -->", first(peersTable)},
	{"<!-- ratios: begin -->\n", "<!-- ratios: end -->", ratiosTable},
	{"<!-- avx2: begin -->\n", "<!-- avx2: end -->", func(_, avx2 map[string]*Result) string { return avx2Table(avx2) }},
}

// first makes a table of the results with all instructions.
func first(table func(map[string]*Result) string) func(byRow, avx2 map[string]*Result) string {
	return func(byRow, _ map[string]*Result) string { return table(byRow) }
}

// writeTables replaces the sections that a document has. Every document must have one.
func writeTables(results string, documents []string) error {
	byRow, err := load(results)
	if err != nil {
		return err
	}
	avx2, err := beside(results)
	if err != nil {
		return err
	}
	for _, path := range documents {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, found := string(raw), false
		for _, s := range sections {
			before, rest, ok := strings.Cut(text, s.begin)
			_, after, ended := strings.Cut(rest, s.end)
			if ok && ended {
				text, found = before+s.begin+s.text(byRow, avx2)+s.end+after, true
			}
		}
		if !found {
			return fmt.Errorf("%s has no section to write, such as %q ... %q", path, strings.TrimSpace(sections[0].begin), sections[0].end)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mainTable returns the table of rows, and what stands below it.
func mainTable(byRow map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| what | size | pairstream | peer | ratio | to reach | bound by | limit, and share of it that is reached |\n|---|---|---|---|---|---|---|---|\n")
	var notes []string
	var last *Result
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil || len(result.Growth) > 0 {
			continue
		}
		last = result
		peer, ratio, verdict := result.Against, "", result.Target
		if result.Peer != nil {
			peer = amount(result.Peer.Value, result.Unit) + " (" + result.Against + ")"
			ratio = result.ratios()
		}
		if !result.Met {
			verdict += " (missed)"
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", result.What, result.Size, ownFigure(result), peer, ratio, verdict, result.Bound,
			result.Limit.text(result.Unit))
		if result.Turns < 5 {
			notes = append(notes, fmt.Sprintf("%s: %d turns", r.name, result.Turns))
		}
		if result.Peer != nil && len(result.Tried) == 0 {
			notes = append(notes, r.name+": measured before other peers than Debian's were tried")
		}
		if result.Busy > 0 {
			notes = append(notes, fmt.Sprintf("%s: measured beside other programs, with a load of %.1f before", r.name, result.Busy))
		}
		for _, note := range result.Notes {
			notes = append(notes, r.name+": "+note)
		}
	}
	if last == nil {
		return t.String()
	}
	fmt.Fprintf(&t, "\nMedians of five turns on %d threads of %s (%s). In brackets stands the ratio of processor time, which other programs distort less.\n%s\n",
		last.Threads, last.Machine.Processor, last.Machine.describe(), revisions(byRow))
	if len(notes) > 0 {
		fmt.Fprintf(&t, "\n- %s.\n", strings.Join(notes, ".\n- "))
	}
	return t.String()
}

// describe returns the size of a machine, and the instructions that were used.
func (m Machine) describe() string {
	text := fmt.Sprintf("%d processors, %s", m.Processors, m.Memory)
	if m.Instructions != "" {
		text += ", " + m.Instructions
	}
	return text
}

// ownFigure returns pairstream's figure, with other values that have a target.
func ownFigure(r *Result) string {
	text := amount(r.Ours.Value, r.Unit)
	if recall, ok := r.Extra["recall"]; ok {
		text += fmt.Sprintf(", recall %.3f", recall)
	}
	if strings.HasPrefix(r.Row, "walk") {
		text += fmt.Sprintf(", %.0f MiB", r.Ours.Peak/(1<<20))
	}
	if share, ok := r.Extra["demo_share_without_cond"]; ok {
		text += fmt.Sprintf(", %.1f %% without Con-D", share)
	}
	if peak, ok := r.Extra["peak_per_pair"]; ok {
		text += fmt.Sprintf(", %s a pair", amount(peak, "bytes"))
	}
	return text
}

// deviceTable is the file to which the results of a GPU are written, and deviceResults the file that keeps them.
const (
	deviceTable   = "lab/bench/gpu.md"
	deviceResults = "lab/bench/gpu.json"
)

// writeDevice writes the page of a device.
func writeDevice(results, page string) error {
	byRow, err := load(results)
	if err != nil {
		return err
	}
	var t strings.Builder
	t.WriteString("# On a GPU\n\nMedians, written by `make bench-gpu`. In the last column, what the row's operations per second are of those that\n" +
		"large products of bfloat16 reached in the same run; operations are counted from the shapes ([count.go](../internal/model/model/config.go)).\n\n" +
		"| what | size | measured | turns | to reach | of the device's products | on | when |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range deviceRows {
		result := byRow[r.name]
		if result == nil {
			continue
		}
		verdict := result.Target
		if !result.Met {
			verdict += " (missed)"
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %d | %s | %s | %s, %s | %s, %s |\n", result.What, result.Size, amount(result.Ours.Value, result.Unit),
			result.Turns, verdict, result.Bound, result.Machine.Device, result.Machine.Processor, result.When, result.Machine.Revision)
	}
	return os.WriteFile(page, []byte(t.String()), 0o644)
}

// growthTable returns a table with a line for every kind of work and size.
func growthTable(byRow map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| work | size | seconds | over the size before | processor seconds | peak memory |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil {
			continue
		}
		for i, p := range result.Growth {
			times := ""
			if i > 0 {
				times = fmt.Sprintf("%.2f ×", p.Seconds/result.Growth[i-1].Seconds)
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s |\n", strings.TrimPrefix(r.name, "growth-"), thousands(int(p.Size)),
				amount(p.Seconds, "s"), times, amount(p.CPU, "s"), amount(p.Peak/(1<<20), "MiB"))
		}
	}
	return t.String()
}

// thousands returns a number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// amount returns a figure with its unit and three digits.
func amount(v float64, unit string) string {
	switch {
	case v >= 1000:
		return thousands(int(math.Round(v))) + " " + unit
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	case v >= 10:
		return fmt.Sprintf("%.1f %s", v, unit)
	case v >= 1:
		return fmt.Sprintf("%.2f %s", v, unit)
	}
	return fmt.Sprintf("%.3f %s", v, unit)
}
