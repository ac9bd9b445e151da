package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// avx2Results keeps what was measured as on a processor without AVX-512.
const avx2Results = "lab/bench/avx2.json"

// beside returns the results with AVX2 alone that lie beside a file of results.
func beside(results string) (map[string]*Result, error) {
	return load(filepath.Join(filepath.Dir(results), filepath.Base(avx2Results)))
}

// ratiosTable returns the short table of the README. It has the ratios with AVX2 alone where they differ by more than a
// fifth.
func ratiosTable(byRow, avx2 map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| row | best peer | times faster (processor time) | with AVX2 alone |\n|---|---|---|---|\n")
	busy, used := 0.0, ""
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil || result.Peer == nil || len(result.Tried) == 0 {
			continue // the ratio to a peer that nothing was tried beside says little
		}
		busy = max(busy, result.Busy)
		if result.Machine.Instructions != "" {
			used = result.Machine.Instructions
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", r.name, against(result), result.ratios(), alone(result, avx2[r.name]))
	}
	if used != "" {
		fmt.Fprintf(&t, "\nThe processor has %s.\n", used)
	}
	if busy > 0 {
		fmt.Fprintf(&t, "\nMeasured under a load of %.1f: read the processor time.\n", busy)
	}
	return t.String()
}

// alone returns the cell of a row with AVX2 alone. On a busy machine processor time decides.
func alone(wide, avx2 *Result) string {
	switch {
	case avx2 == nil || avx2.Peer == nil:
		return ""
	case avx2.Busy > 0 && avx2.CPURatio > 0 && !apart(wide.CPURatio, avx2.CPURatio):
		return "the same"
	case avx2.Busy > 0 && avx2.CPURatio > 0:
		return fmt.Sprintf("(%.2f)", avx2.CPURatio)
	case apart(wide.Ratio, avx2.Ratio) || apart(wide.CPURatio, avx2.CPURatio):
		return avx2.ratios()
	}
	return "the same"
}

// apart says whether two ratios differ by more than a fifth.
func apart(a, b float64) bool {
	return a > 0 && b > 0 && math.Max(a, b) > 1.2*math.Min(a, b)
}

// avx2Table returns the rows that were measured with AVX2 alone.
func avx2Table(avx2 map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| row | size | pairstream | best peer | ratio | load before |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		result := avx2[r.name]
		if result == nil || result.Peer == nil {
			continue
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s (%s) | %s | %.1f |\n", r.name, result.Size, ownFigure(result),
			amount(result.Peer.Value, result.Unit), against(result), result.ratios(), result.Busy)
	}
	return t.String()
}

// behind says in words which rows are behind their best peer, or miss what they are to reach.
func behind(byRow map[string]*Result) []string {
	var out []string
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil {
			continue
		}
		text := ""
		switch slower := result.Peer != nil && (result.Ratio < 1 || result.CPURatio > 0 && result.CPURatio < 1); {
		case slower && result.CPURatio > 0:
			text = fmt.Sprintf("%s is behind %s: %.2f times as fast, %.2f by processor time", r.name, against(result), result.Ratio, result.CPURatio)
		case slower:
			text = fmt.Sprintf("%s is behind %s: %.2f times as fast", r.name, against(result), result.Ratio)
		case !result.Met:
			text = fmt.Sprintf("%s misses what it is to reach, %s: it has %s", r.name, result.Target, ownFigure(result))
		default:
			continue
		}
		if result.Limit != nil {
			text += fmt.Sprintf("; it is at %.0f %% of its limit", 100*result.Limit.Share)
		}
		out = append(out, text+".")
	}
	return out
}

// tellBehind prints what is behind, of all results of a file.
func tellBehind(out io.Writer, results string) error {
	byRow, err := load(results)
	if err != nil {
		return err
	}
	lines := behind(byRow)
	if len(lines) == 0 {
		lines = []string{"No row is behind its best peer or misses what it is to reach."}
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}
