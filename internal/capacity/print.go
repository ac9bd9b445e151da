package capacity

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the plan for a person: stages, log, bucket and memory, then what all of it assumes.
func (p *Plan) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	r := p.Request
	fmt.Fprintf(w, "%s pairs, %.0f epochs, preset %s, %s, %.4g days\n\n", amount(r.Pairs, ""), r.Epochs, r.Model.Name, r.GPU.Name, r.Days)
	fmt.Fprintf(w, "lanes\t%d\t%d groups each, one after the other, of %s pairs\n", p.Lanes, p.Rounds, amount(p.Group, ""))
	fmt.Fprintf(w, "time\t%.3g days\tuntil training begins, then %.3g days of training\n", (p.Fill+p.Close)/day, p.Train/day)
	fmt.Fprint(w, "\nstage\tGPUs\tGPU-hours\tcores\tpairs/s\n")
	for _, s := range p.Stages {
		if s.GPUs+s.Cores > 0 {
			fmt.Fprintf(w, "%s\t%d\t%.1f\t%d\t%s\n", s.Name, s.GPUs, s.GPUHours, s.Cores, amount(s.Rate, ""))
		}
	}
	fmt.Fprintf(w, "Processors instead of the indexers' GPUs: %d cores.\n", p.IndexerCores)
	fmt.Fprint(w, "\nlog and bucket\n")
	for _, row := range [][3]string{
		{"brokers", fmt.Sprint(p.Brokers), "with every record three times"},
		{"storage", amount(p.Kept, "B"), "if what may go is removed, else " + amount(p.Everything, "B")},
		{"writes", amount(p.Written, "B/s"), "by the stages, before replication"},
		{"bucket", amount(p.Reads, "B/s"), amount(p.ReadImages, "") + " reads a second, without caches and copies"},
	} {
		fmt.Fprintln(w, strings.Join(row[:], "\t"))
	}
	fmt.Fprint(w, "\nmemory\n")
	fmt.Fprintf(w, "indexers\t%s\tof all open groups, and %s for each that closes; %s on its GPU\n", amount(p.IndexerMemory, "B"), amount(p.ClosingMemory, "B"), amount(p.IndexerDevice, "B"))
	fmt.Fprintf(w, "groupers\t%s\tof all open groups\n", amount(p.GrouperMemory, "B"))
	fmt.Fprintf(w, "a trainer\t%s\tof weights, gradients and moments on its GPU; what a step keeps comes on top\n", amount(p.TrainerWeights, "B"))
	if p.Exchange > 0 {
		fmt.Fprintf(w, "\nEvery GPU of the trainer sends and receives %s, rank 0 no more than others. The built-in\n"+
			"trainer's ranks do so over NCCL (RANK_EXCHANGE=nccl), which was seen among ranks of one GPU.\n", amount(p.Exchange, "B/s"))
	}
	fmt.Fprint(w, "\nLines marked \"prediction\" are to be confirmed by the first group that is closed on a GPU.\n\nassumption\tvalue\tkind\tsource\n")
	for _, a := range p.Assumptions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.What, a.Value, a.Kind, a.Source)
	}
	return w.Flush()
}

// amount writes a number with three digits and a prefix of a thousand's power.
func amount(v float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for ; v >= 999.5 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	if text := fmt.Sprintf("%.3g %s%s", v, prefixes[i], unit); prefixes[i]+unit != "" {
		return text
	}
	return fmt.Sprintf("%.3g", v)
}
