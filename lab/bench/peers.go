package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The homes of peers' libraries.
const (
	debian = "Debian"
	pypi   = "PyPI"
)

// home is an installation of the libraries that peers use.
type home struct {
	name   string
	python string
}

// program is one way to write a peer.
type program struct {
	script  string
	variant string // of the script; empty: it has one
	home    string // the only home that can run it; empty: all can
}

// String returns a short name.
func (p program) String() string {
	name := strings.TrimSuffix(p.script, ".py")
	if p.variant != "" {
		name += ", " + p.variant
	}
	return name
}

// Entrant is a peer that a row has tried: a program, on the libraries of one home, with one set of OpenBLAS's kernels.
type Entrant struct {
	Home    string `json:"home"`
	Program string `json:"program"`
	// Core is the value of OPENBLAS_CORETYPE; empty: OpenBLAS chooses.
	Core string `json:"core,omitempty"`
	// About holds the versions, core names and compile options of the libraries, as they report them.
	About map[string]string `json:"about,omitempty"`
	Value float64           `json:"value"` // in the row's unit, of the turn that was tried
	CPU   float64           `json:"cpu_seconds"`
	Won   bool              `json:"won,omitempty"`

	program program
	python  string
}

// String returns the entrant with the versions and the instructions that it computed with.
func (e Entrant) String() string {
	return fmt.Sprintf("%s on %s: %s; %s", e.Program, e.Home, e.versions(), e.instructions())
}

// homes returns the installations that a run has. A full run wants current wheels, and a short one takes what there is.
func (b *bench) homes() ([]home, error) {
	all := []home{{debian, b.python}}
	if _, err := os.Stat(b.current); err == nil {
		return append(all, home{pypi, b.current}), nil
	} else if b.short {
		fmt.Fprintf(b.out, "no current wheels at %s: the peers are Debian's alone, as the times of a short run prove nothing\n", b.current)
		return all, nil
	}
	return nil, fmt.Errorf("no current wheels at %s: run `make bench`, which installs them, or name their Python with --current", b.current)
}

// coreTypes returns the sets of OpenBLAS's kernels that a processor with these flags can run and that may be quicker
// than those that OpenBLAS has chosen. Old releases take their oldest kernels on processors that they do not know.
func coreTypes(flags string, chosen string) []string {
	has := strings.Fields(flags)
	var out []string
	for _, kind := range []struct{ name, flag string }{{"SkylakeX", "avx512bw"}, {"Haswell", "avx2"}} {
		if slices.Contains(has, kind.flag) && !strings.EqualFold(kind.name, chosen) {
			out = append(out, kind.name)
		}
	}
	return out
}

// enter starts an entrant. Its OpenMP threads sleep while they wait. By default they spin and take the processors from
// the threads of OpenBLAS. The peers would then be up to four times slower. A choice of kernels in the environment of
// the bench does not reach the peers.
func (b *bench) enter(ctx context.Context, e Entrant, j job) (*side, error) {
	j.Variant = e.program.variant
	command := []string{"env", "-u", "OPENBLAS_CORETYPE", "OMP_WAIT_POLICY=PASSIVE"}
	core := e.Core
	if b.avx2 {
		core = "Haswell"
	}
	if core != "" {
		command = append(command, "OPENBLAS_CORETYPE="+core)
	}
	return b.start(ctx, fmt.Sprintf("the peer %s of %s", e.Program, e.Home), j, append(command, e.python, filepath.Join(b.peers, e.program.script))...)
}

// contest tries every peer of a duel and returns them all, the best one marked. A short run tries none of them, as it
// meets them all.
func (b *bench) contest(ctx context.Context, d duel) ([]Entrant, error) {
	var tried []Entrant
	for _, e := range d.entrants(b.installed) {
		cores := []string{""}
		for i := 0; i < len(cores); i++ {
			e.Core = cores[i]
			if !b.short && d.oneHome == "" {
				if err := b.try(ctx, d, &e); err != nil {
					return nil, err
				}
			}
			tried = append(tried, e)
			if i == 0 && !d.plain && e.About["openblas_core"] != "" {
				cores = append(cores, coreTypes(b.flags, e.About["openblas_core"])...)
			}
		}
	}
	if len(tried) == 0 {
		return nil, fmt.Errorf("none of the peers %v runs on the libraries of %v", d.programs, b.installed)
	}
	if !b.short {
		tried[best(tried, d.higher, !d.plain && b.before > maxLoad)].Won = true
	}
	return tried, nil
}

// entrants returns the peers of a duel on the homes that can run them.
func (d duel) entrants(homes []home) []Entrant {
	if d.oneHome != "" {
		homes = []home{{"own environment", d.oneHome}}
	}
	var out []Entrant
	for _, h := range homes {
		for _, p := range d.programs {
			if p.home == "" || p.home == h.name {
				out = append(out, Entrant{Home: h.name, Program: p.String(), program: p, python: h.python})
			}
		}
	}
	return out
}

// try runs a peer for one turn, after one that does not count.
func (b *bench) try(ctx context.Context, d duel, e *Entrant) (err error) {
	j := d.job
	if d.trial != nil {
		j.Options = d.trial(j.Options)
	}
	s, err := b.enter(ctx, *e, j)
	if err != nil {
		return err
	}
	defer closing(s, &err)
	answers, err := race(1, 1, "run", s)
	if err != nil {
		return err
	}
	e.About, e.Value, e.CPU = s.about, d.of(answers[0][0]), answers[0][0].CPUSeconds
	fmt.Fprintf(b.out, "  tried %s: %s, %s of processor time\n", e, amount(e.Value, d.unit), amount(e.CPU, "s"))
	return nil
}

// best returns the place of the best entrant, by its figure or by processor time.
func best(tried []Entrant, higher, byCPU bool) int {
	cost := func(e Entrant) float64 {
		switch {
		case byCPU:
			return e.CPU
		case higher:
			return -e.Value
		}
		return e.Value
	}
	least := slices.MinFunc(tried, func(a, b Entrant) int { return cmp.Compare(cost(a), cost(b)) })
	return slices.IndexFunc(tried, func(e Entrant) bool { return cost(e) == cost(least) })
}

// winner returns the entrant that a contest has marked.
func winner(tried []Entrant) (Entrant, error) {
	if i := slices.IndexFunc(tried, func(e Entrant) bool { return e.Won }); i >= 0 {
		return tried[i], nil
	}
	return Entrant{}, errors.New("a contest without a winner")
}

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
	return e.list([]string{"torch", "torchvision", "faiss", "numpy", "pillow", "simplejpeg", "openvino", "webdataset", "streaming", "img2dataset", "kafka"}, "%s %s")
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

// against returns the peer that took part in a row.
func against(r *Result) string {
	if e, err := winner(r.Tried); err == nil {
		return e.Program + ", " + e.Home
	}
	return r.Against
}
