package training

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/trainer"
)

// meter reports what the steps say, besides what every stage reports.
type meter struct {
	*service.Stage
	losses  *prometheus.GaugeVec
	anchors *prometheus.CounterVec
	rate    prometheus.Gauge
	steps   prometheus.Gauge
}

func newMeter(stage *service.Stage) (*meter, error) {
	const prefix = "pairstream_trainer_"
	m := &meter{
		Stage:  stage,
		losses: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "loss", Help: "Losses of the last step."}, []string{"kind"}),
		anchors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "anchors_total", Help: "Anchors of both directions by the class of their hardest candidate; alone: there was none.",
		}, []string{"class"}),
		rate:  prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "learning_rate", Help: "Learning rate of the last step."}),
		steps: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "steps", Help: "Training steps made, in earlier runs too."}),
	}
	return m, stage.Register(m.losses, m.anchors, m.rate, m.steps)
}

func (m *meter) step(r *trainer.Result) {
	for kind, loss := range map[string]float64{
		"itc": r.Losses.ITC, "itm": r.Losses.ITM, "mlm": r.Losses.MLM, "uni": r.Losses.Uni, "total": r.Losses.Total,
	} {
		m.losses.WithLabelValues(kind).Set(loss)
	}
	for class, n := range map[string]int{
		"negative": r.Counts.Negatives, "ambiguous": r.Counts.Ambiguous, "connection": r.Counts.Connections, "alone": r.Counts.Alone,
	} {
		m.anchors.WithLabelValues(class).Add(float64(n))
	}
	m.rate.Set(r.Rate)
	m.steps.Set(float64(r.Step + 1))
	m.PairsOut(r.Counts.Samples)
}
