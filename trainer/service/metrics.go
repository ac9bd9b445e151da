package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// metrics report what the steps say, besides what every stage reports.
type metrics struct {
	*service.Instruments
	losses   *prometheus.GaugeVec
	anchors  *prometheus.CounterVec
	rate     prometheus.Gauge
	steps    prometheus.Gauge
	masked   prometheus.Counter
	hardest  prometheus.Gauge
	setAside prometheus.Counter
	eval     *prometheus.GaugeVec
	evalStep prometheus.Gauge
	evalTook prometheus.Gauge
	saveStep prometheus.Gauge
	saveTook prometheus.Gauge
	pause    prometheus.Gauge
	lost     prometheus.Counter
}

func newMetrics(i *service.Instruments) (*metrics, error) {
	const prefix = "pairstream_trainer_"
	m := &metrics{
		Instruments: i,
		losses:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "loss", Help: "Losses of the last step."}, []string{"kind"}),
		anchors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "anchors_total", Help: "Anchors of both directions by the class of their hardest candidate; alone: there was none.",
		}, []string{"class"}),
		rate:     prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "learning_rate", Help: "Learning rate of the last step."}),
		steps:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "steps", Help: "Training steps made, in earlier runs as well."}),
		masked:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "masked_samples_total", Help: "Samples that no step learned from, because their images are gone."}),
		hardest:  prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "hardest_scored_ratio", Help: "Share of the last scored batch's anchors whose hardest sample, by the current model, was among Con-D's candidates."}),
		setAside: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "batches_set_aside_total", Help: "Batches that no step learned from, because their loss is not a finite number."}),
		eval:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "eval", Help: "Figures of the last evaluation on EVAL_DATA, in percent."}, []string{"measure"}),
		evalStep: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "eval_step", Help: "Training steps that the last evaluation was made after."}),
		evalTook: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "eval_seconds", Help: "Time that the last evaluation took, in which no step was made."}),
		saveStep: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_step", Help: "Training steps in the last checkpoint that this process has written."}),
		saveTook: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_seconds", Help: "Time that writing the last checkpoint took, beside training."}),
		pause:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_pause_seconds", Help: "Time that training stood still for the last checkpoint, while its state was copied."}),
		lost:     prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "ranks_lost_total", Help: "Times that training stood still because a rank was lost, until all were there again."}),
	}
	return m, i.Register(m.losses, m.anchors, m.rate, m.steps, m.masked, m.setAside, m.hardest, m.eval, m.evalStep, m.evalTook, m.saveStep, m.saveTook, m.pause, m.lost)
}

// evaluated notes the figures of an evaluation.
func (m *metrics) evaluated(step int64, values schemas.Measures, took time.Duration) {
	for name, v := range values {
		m.eval.WithLabelValues(name).Set(v)
	}
	m.evalStep.Set(float64(step))
	m.evalTook.Set(took.Seconds())
}

// saved notes a checkpoint that is on the disk.
func (m *metrics) saved(step int64, took time.Duration) {
	m.saveStep.Set(float64(step))
	m.saveTook.Set(took.Seconds())
}

func (m *metrics) step(r *trainer.Result) {
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
	if r.Counts.Anchors > 0 {
		m.hardest.Set(float64(r.Counts.HardestScored) / float64(r.Counts.Anchors))
	}
	m.masked.Add(float64(r.Counts.Masked))
	m.PairsOut(r.Counts.Samples)
}
