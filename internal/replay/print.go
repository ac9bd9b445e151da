package replay

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes a line for every lane of every topic, and a summary.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "topic\tlane\trecords\tresult")
	records := int64(0)
	for _, x := range r.Results {
		result := "equal"
		switch {
		case !x.Equal:
			result = "differs at " + x.Differs
		case x.Moved > 0:
			result = fmt.Sprintf("equal but for where %d spooled images lie", x.Moved)
		}
		if x.Equal {
			records += x.Records
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", x.Topic, x.Lane, x.Records, result)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	sum := fmt.Sprintf("%d pairs were copied; %d records in %d lanes are equal", r.Copied, records, len(r.Results)-r.differing())
	if n := r.differing(); n > 0 {
		sum += fmt.Sprintf(", %d lanes differ", n)
	}
	if r.Stalled {
		sum += "; nothing came any more, so the stages were stopped"
	}
	if r.Unfinished {
		sum += "; training did not come to its end by itself, so its last step and checkpoint may be missing"
	}
	_, err := fmt.Fprintln(w, sum)
	return err
}
