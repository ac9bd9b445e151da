package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/base/instructions"
	"github.com/pairstream/pairstream/internal/base/machine"
)

// Figure is the cost of one side.
type Figure struct {
	Value   float64   `json:"value"` // the median, in the result's unit
	Samples []float64 `json:"samples"`
	CPU     float64   `json:"cpu_seconds,omitempty"` // the median
	Peak    float64   `json:"peak_bytes,omitempty"`  // the largest
}

// Result is a row of the table.
type Result struct {
	Row     string  `json:"row"`
	What    string  `json:"what"`
	Size    string  `json:"size"`
	Against string  `json:"against"`
	Unit    string  `json:"unit"`
	Ours    Figure  `json:"ours"`
	Peer    *Figure `json:"peer,omitempty"`
	// Ratio is how many times faster our side is than the peer by the clock. CPURatio says the same by processor time,
	// which other programs on the machine distort less. A ratio is 0 when there is no peer, or when the work is not the
	// same.
	Ratio    float64            `json:"ratio,omitempty"`
	CPURatio float64            `json:"cpu_ratio,omitempty"`
	Target   string             `json:"target"`
	Met      bool               `json:"met"`
	Bound    string             `json:"bound"` // what takes the time
	Limit    *Limit             `json:"limit,omitempty"`
	Checks   []string           `json:"checks,omitempty"` // what was compared and agreed
	Notes    []string           `json:"notes,omitempty"`
	Extra    map[string]float64 `json:"extra,omitempty"`
	Growth   []Point            `json:"growth,omitempty"`
	Tried    []Entrant          `json:"tried,omitempty"` // peers, of which the best took part

	Threads int     `json:"threads"`
	Turns   int     `json:"turns"`
	When    string  `json:"when"`
	Load    float64 `json:"load"`           // average of the last minute, at the end
	Busy    float64 `json:"busy,omitempty"` // load before the run, where it was too high
	Machine Machine `json:"machine"`
}

// Point is a cost at a size.
type Point struct {
	Size    float64 `json:"size"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	Peak    float64 `json:"peak_bytes"`
}

// Machine describes the machine of a result.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Memory     string `json:"memory"`
	System     string `json:"system"`
	Revision   string `json:"revision"`
	Device     string `json:"device,omitempty"`
	// Instructions are those of the processor that pairstream's code used.
	Instructions string `json:"instructions,omitempty"`
}

// figure summarises a side's answers; value picks the figure of one answer.
func figure(answers []answer, value func(answer) float64) Figure {
	var f Figure
	var cpu []float64
	for _, a := range answers {
		f.Samples = append(f.Samples, value(a))
		cpu = append(cpu, a.CPUSeconds)
		f.Peak = max(f.Peak, a.PeakBytes)
	}
	f.Value, f.CPU = median(f.Samples), median(cpu)
	return f
}

func seconds(a answer) float64 { return a.Seconds }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[n/2]
}

// describe adds what is the same for all rows of a run.
func (r row) describe(ctx context.Context, out *Result, b *bench) {
	out.Row, out.What, out.Target = r.name, r.what, r.target
	out.Threads, out.Turns = b.threads, len(out.Ours.Samples)
	out.When = time.Now().UTC().Format(time.DateOnly)
	out.Load, _ = machine.Load() // it could be read before the run
	if b.before > maxLoad {
		out.Busy = b.before
	}
	out.Machine = b.machine
	if b.device != "" {
		out.Machine.Device = deviceName(ctx, b.device)
	}
}

func thisMachine(ctx context.Context) Machine {
	m := Machine{Processors: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()}
	m.Processor, m.Memory = machine.Processor(), machine.Field("/proc/meminfo", "MemTotal")
	m.Revision, m.Instructions = revision(ctx), instructions.Names()
	return m
}

// revision names the commit that is measured, with a mark when the sources differ from it. What a run writes is no
// source.
func revision(ctx context.Context) string {
	name := machine.Revision(ctx)
	if name == "" {
		return ""
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/*.go", ":/*.cpp", ":/*.h", ":/*.py", ":/go.mod").Output()
	if err != nil || len(changed) > 0 {
		name += " with changes"
	}
	return name
}

// line returns a result for the terminal.
func (r *Result) line() string {
	text := fmt.Sprintf("%s: ours %s", r.Size, amount(r.Ours.Value, r.Unit))
	if r.Peer != nil {
		text += fmt.Sprintf(", %s %s, ratio %s", r.Against, amount(r.Peer.Value, r.Unit), r.ratios())
	}
	return text
}

// ratios returns the ratio to the peer, that of processor time in brackets, and that of medians where the row's is of
// p99.
func (r *Result) ratios() string {
	text := fmt.Sprintf("%.2f", r.Ratio)
	if r.CPURatio > 0 {
		text += fmt.Sprintf(" (%.2f)", r.CPURatio)
	}
	if p50 := r.Extra["p50_ratio"]; p50 > 0 {
		text += fmt.Sprintf(", p50 %.2f", p50)
	}
	return text
}

// load reads the results of a file, by row.
func load(path string) (map[string]*Result, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]*Result{}, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*Result
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	byRow := map[string]*Result{}
	for _, r := range list {
		byRow[r.Row] = r
	}
	return byRow, nil
}

// merge replaces a row of a table in a file of results.
func merge(path string, table []row, result *Result) error {
	byRow, err := load(path)
	if err != nil {
		return err
	}
	byRow[result.Row] = result
	var list []*Result
	for _, r := range table {
		if result := byRow[r.name]; result != nil {
			list = append(list, result)
		}
	}
	raw, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}
