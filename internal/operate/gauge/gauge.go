// Package gauge shows the progress of long pieces of work, as bars on a terminal or as lines.
package gauge

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Gauge shows the progress of a long piece of work.
type Gauge struct {
	Name string
	Unit string
	Done func() int64
	All  func() int64 // 0: not known yet

	first, last time.Time // of movement
	seen        int64
	bar         *mpb.Bar
}

// Rate returns the units a second between the first and the last movement.
func (g *Gauge) Rate() float64 {
	if took := g.last.Sub(g.first).Seconds(); took > 0 {
		return float64(g.seen) / took
	}
	return 0
}

func (g *Gauge) look(now time.Time) {
	done := g.Done()
	if done == g.seen {
		if g.seen == 0 {
			g.first = now // the rate counts from the last look before the first unit
		}
		return
	}
	g.seen, g.last = done, now
}

const (
	lookEvery = 200 * time.Millisecond
	lineEvery = 15 * time.Second
)

// Watch shows the gauges until the returned function is called. It draws bars on a terminal, and otherwise writes a
// line at intervals.
func Watch(w io.Writer, terminal bool, gauges []*Gauge) (stop func()) {
	var bars *mpb.Progress
	if terminal {
		bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(48), mpb.WithRefreshRate(lookEvery))
		for _, g := range gauges {
			g.bar = bars.AddBar(0,
				mpb.PrependDecorators(decor.Name(fmt.Sprintf("%-14s", g.Name)), decor.CountersNoUnit("%7d / %-7d", decor.WC{W: 18})),
				mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5})))
		}
	}
	show(time.Now(), gauges)
	quit := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		ticks := time.NewTicker(lookEvery)
		defer ticks.Stop()
		printed := time.Now()
		for {
			select {
			case <-quit:
				finishBars(bars, gauges)
				return
			case now := <-ticks.C:
				show(now, gauges)
				if !terminal && now.Sub(printed) >= lineEvery {
					printed = now
					printLine(w, gauges)
				}
			}
		}
	})
	return func() {
		close(quit)
		over.Wait()
	}
}

func show(now time.Time, gauges []*Gauge) {
	for _, g := range gauges {
		g.look(now)
		if g.bar != nil {
			g.bar.SetTotal(max(g.All(), g.seen+1), false)
			g.bar.SetCurrent(g.seen)
		}
	}
}

func finishBars(bars *mpb.Progress, gauges []*Gauge) {
	show(time.Now(), gauges)
	if bars == nil {
		return
	}
	for _, g := range gauges {
		if g.seen >= g.All() {
			g.bar.SetTotal(g.seen, true)
		} else {
			g.bar.Abort(false) // a bar of interrupted work must not look complete
		}
	}
	bars.Wait()
}

func printLine(w io.Writer, gauges []*Gauge) {
	for _, g := range gauges {
		if all := g.All(); all > 0 {
			fmt.Fprintf(w, "  %s %d/%d %s", g.Name, g.seen, max(all, g.seen), g.Unit)
		}
	}
	fmt.Fprintln(w)
}
