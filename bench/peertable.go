package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// revisions returns a sentence about the sources that were measured. Rows of several revisions do not belong together.
func revisions(byRow map[string]*Result) string {
	of := map[string][]string{}
	for _, r := range rows {
		if result := byRow[r.name]; result != nil && len(result.Growth) == 0 {
			of[result.Machine.Revision] = append(of[result.Machine.Revision], r.name)
		}
	}
	names := slices.Sorted(maps.Keys(of))
	if len(names) == 1 {
		return fmt.Sprintf("All rows are of revision %s.", names[0])
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s of revision %s", strings.Join(of[name], ", "), name))
	}
	return "The rows are of several revisions: " + strings.Join(parts, "; ") + "."
}

// peersTable returns a table of every peer that was tried, and what their libraries say of themselves.
func peersTable(byRow map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| row | peer | libraries | instructions | tried | processor time | |\n|---|---|---|---|---|---|---|\n")
	options := map[string]bool{}
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil {
			continue
		}
		for _, e := range result.Tried {
			verdict := ""
			if e.Won {
				verdict = "won"
			}
			fmt.Fprintf(&t, "| %s | %s | %s: %s | %s | %s | %s | %s |\n", r.name, e.Program, e.Home, e.versions(), e.instructions(),
				orNothing(e.Value, result.Unit), orNothing(e.CPU, "s"), verdict)
			for _, name := range []string{"faiss_options", "openblas_options", "torch_options"} {
				if text := e.About[name]; text != "" {
					library := strings.TrimSuffix(name, "_options")
					options[fmt.Sprintf("- %s of %s: `%s`\n", library, e.Home, text)] = true
				}
			}
		}
	}
	if len(options) > 0 {
		t.WriteString("\nHow these libraries were built, as they say:\n\n" + strings.Join(slices.Sorted(maps.Keys(options)), ""))
	}
	return t.String()
}

// orNothing returns a figure with its unit, or nothing for one that was not measured.
func orNothing(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return amount(v, unit)
}

// versions returns the versions of an entrant's libraries.
func (e Entrant) versions() string {
	return e.list([]string{"torch", "torchvision", "faiss", "numpy", "pillow", "webdataset", "streaming", "img2dataset", "kafka"}, "%s %s")
}

// instructions returns what an entrant's libraries compute with.
func (e Entrant) instructions() string {
	text := e.list([]string{"openblas_core", "faiss_simd", "torch_cpu"}, "%s %s")
	if e.Core != "" {
		text += " (asked for " + e.Core + ")"
	}
	return strings.NewReplacer("openblas_core", "OpenBLAS", "faiss_simd", "FAISS", "torch_cpu", "PyTorch").Replace(text)
}

// list returns what the entrant's libraries say under some names.
func (e Entrant) list(names []string, format string) string {
	var parts []string
	for _, name := range names {
		if v := e.About[name]; v != "" {
			parts = append(parts, fmt.Sprintf(format, name, v))
		}
	}
	return strings.Join(parts, ", ")
}

// ratiosTable returns the short table of the README.
func ratiosTable(byRow map[string]*Result) string {
	var t strings.Builder
	t.WriteString("| row | best peer | times faster (processor time) |\n|---|---|---|\n")
	busy := 0.0
	for _, r := range rows {
		result := byRow[r.name]
		if result == nil || result.Peer == nil || len(result.Tried) == 0 {
			continue // the ratio to a peer that nothing was tried beside says little
		}
		busy = max(busy, result.Busy)
		fmt.Fprintf(&t, "| %s | %s | %s |\n", r.name, against(result), result.ratios())
	}
	if busy > 0 {
		fmt.Fprintf(&t, "\nMeasured under a load of %.1f: read the processor time.\n", busy)
	}
	return t.String()
}

// against returns the peer that took part in a row.
func against(r *Result) string {
	if e, err := winner(r.Tried); err == nil {
		return e.Program + ", " + e.Home
	}
	return r.Against
}
