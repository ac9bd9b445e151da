package eval

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// Print prints the measures as tables.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d images, %d texts\n", r.Images, r.Texts)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tTR@1\tTR@5\tTR@10\tIR@1\tIR@5\tIR@10\tRSUM\t")
	row := func(name string, x Retrieval) {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name,
			x.TR.R1, x.TR.R5, x.TR.R10, x.IR.R1, x.IR.R5, x.IR.R10, x.RSUM())
	}
	row("ITC", r.ITC)
	if r.ITM != nil {
		row(fmt.Sprintf("ITM, top %d", r.TopK), *r.ITM)
	}
	row("chance", r.Chance)
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Vision) > 0 {
		if err := printVision(w, r.Vision); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "matching error %.1f %% (true pairs refused %.1f %%, hardest negatives accepted %.1f %%)\n",
		r.Match.Error, r.Match.Positive, r.Match.Negative)
	return err
}

func printVision(w io.Writer, usage []Usage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "masked\twords\tMLM@1\tMLM@5\twithout image @1\t@5\tUoV@1\tUoV@5\t")
	for _, u := range usage {
		fmt.Fprintf(t, "%.0f %%\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", 100*u.Share, u.Words,
			u.With.Top1, u.With.Top5, u.Without.Top1, u.Without.Top5, u.With.Top1-u.Without.Top1, u.With.Top5-u.Without.Top5)
	}
	return t.Flush()
}

// Print prints the measurement of Con-D.
func (r *CondReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "Con-D on %d images and %d texts, each with its 2 hardest others\n", r.Images, r.Texts)
	fmt.Fprintf(w, "AUC on easy pairs %.3f: own texts against images drawn at random\n", r.EasyAUC)
	fmt.Fprintf(w, "AUC on hard pairs %.3f: own texts against the most similar others\n", r.HardAUC)
	switch {
	case r.CandidateAUC != nil:
		fmt.Fprintf(w, "true are %.1f %% of the hard pairs, counted; AUC among these %.3f\n", 100*r.BaseRate, *r.CandidateAUC)
	case r.Counted:
		fmt.Fprintf(w, "true are %.1f %% of the hard pairs, counted\n", 100*r.BaseRate)
	default:
		fmt.Fprintf(w, "true are, it is assumed, %.1f %% of the hard pairs (--base-rate); which of them is unknown\n", 100*r.BaseRate)
	}
	if c := r.Calibration; c != nil {
		fmt.Fprintf(w, "calibrated at a base rate of %.1f %%, so that no probability is above %.2f", 100*c.BaseRate, c.Of(math.Inf(1)))
	} else {
		fmt.Fprint(w, "not calibrated")
	}
	fmt.Fprintf(w, "; calibration error %.1f %%\n", 100*r.CalibrationError)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "above\town pairs, %\thard pairs, %\tprecision\tfrom\tto\trecall\t")
	known := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.3f", *x)
	}
	for _, v := range r.Above {
		from, to := &v.From, &v.To
		if v.Precision == nil {
			from, to = nil, nil
		}
		fmt.Fprintf(t, "%.2f\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t\n", v.High, 100*v.Own, 100*v.Hard, known(v.Precision), known(from), known(to), known(v.Recall))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Falls != nil {
		fmt.Fprintf(w, "precision falls: above %.2f fewer are true than above a lower threshold. Do not raise ECM_HIGH to be careful\n", *r.Falls)
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "probability\thard pairs\tmean, %\ttrue, %\t")
	for _, b := range r.Bins {
		fmt.Fprintf(t, "%.1f to %.1f\t%d\t%.1f\t%.1f\t\n", b.Low, b.High, b.Pairs, 100*b.Mean, 100*b.True)
	}
	return t.Flush()
}
