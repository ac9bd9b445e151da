package service

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// The states of a lane's connections.
const (
	stateOn        = "on"
	stateOff       = "off"
	stateMeasuring = "measuring" // and off meanwhile
)

// gauges show the check of each lane's guard. The zero value shows nothing.
type gauges struct {
	state     *prometheus.GaugeVec
	precision *prometheus.GaugeVec
	judged    *prometheus.GaugeVec
}

func newGauges(instruments *service.Instruments) (gauges, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pairstream_discriminator_" + name, Help: help}, append([]string{"lane"}, labels...))
	}
	g := gauges{
		state:     gauge("connections", "Whether a lane has connections: 1 for its state, 0 for the two others.", "state"),
		precision: gauge("precision_ratio", "Share of a lane's connections that is true, by the guard: the estimate and the ends of its interval.", "end"),
		judged:    gauge("judged_connections", "Connections that people have judged and that the guard of a lane counts."),
	}
	return g, instruments.Register(g.state, g.precision, g.judged)
}

// show sets the gauges of a lane. While nothing is measured it leaves the precision out.
func (g gauges) show(lane int, c *schemas.Check) {
	if g.state == nil {
		return
	}
	now := stateOn
	switch {
	case c.Open:
		now = stateMeasuring
	case c.Off():
		now = stateOff
	}
	l := strconv.Itoa(lane)
	for _, state := range []string{stateOn, stateOff, stateMeasuring} {
		is := 0.0
		if state == now {
			is = 1
		}
		g.state.WithLabelValues(l, state).Set(is)
	}
	if c.Positives == 0 || c.Precision == nil {
		return
	}
	g.precision.WithLabelValues(l, "estimate").Set(c.Precision.Value)
	g.precision.WithLabelValues(l, "low").Set(c.Precision.Low)
	g.precision.WithLabelValues(l, "high").Set(c.Precision.High)
	g.judged.WithLabelValues(l).Set(float64(c.Precision.Judged))
}

// drop takes the gauges of a lane away that goes to another owner.
func (g gauges) drop(lane int) {
	if g.state == nil {
		return
	}
	of := prometheus.Labels{"lane": strconv.Itoa(lane)}
	for _, vec := range []*prometheus.GaugeVec{g.state, g.precision, g.judged} {
		vec.DeletePartialMatch(of)
	}
}
