package compare

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// widest is the most letters of a cell in print.
const widest = 40

// Print prints all tables. Package console draws the curves.
func (c *Comparison) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, t := range c.Tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\t%s\n", strings.ToUpper(t.Title), strings.Join(c.Runs, "\t"))
		for _, row := range t.Rows {
			cells := make([]string, len(row.Cells))
			for k, cell := range row.Cells {
				cells[k] = shorten(cell)
			}
			fmt.Fprintf(w, "  %s\t%s\n", row.Name, strings.Join(cells, "\t"))
		}
		if t.Note != "" {
			fmt.Fprintf(w, "  (%s)\n", strings.TrimSuffix(t.Note, "."))
		}
	}
	return w.Flush()
}

// shorten keeps the end of a long cell: what differs in a path mostly lies there.
func shorten(cell string) string {
	if runes := []rune(cell); len(runes) > widest {
		return "…" + string(runes[len(runes)-widest+1:])
	}
	return cell
}
