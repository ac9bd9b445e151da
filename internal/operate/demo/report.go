package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// lossCurve collects the losses and counts of the steps.
type lossCurve struct {
	mu     sync.Mutex
	losses []trainer.Losses
	counts trainer.Counts
}

func (c *lossCurve) add(r *trainer.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = append(c.losses, r.Losses)
	c.counts.Samples += r.Counts.Samples
	c.counts.Masked += r.Counts.Masked
	c.counts.Candidates += r.Counts.Candidates
	c.counts.Confirmed += r.Counts.Confirmed
	c.counts.Ambiguous += r.Counts.Ambiguous
	c.counts.Connections += r.Counts.Connections
}

func (c *lossCurve) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.losses))
}

// ends returns the means over the first and the last tenth of the steps.
func (c *lossCurve) ends(pick func(trainer.Losses) float64) (first, last float64) {
	n := max(len(c.losses)/10, 1)
	if len(c.losses) == 0 {
		return math.NaN(), math.NaN()
	}
	for i := range n {
		first += pick(c.losses[i]) / float64(n)
		last += pick(c.losses[len(c.losses)-1-i]) / float64(n)
	}
	return first, last
}

// objective is a loss by name.
type objective struct {
	name string
	of   func(trainer.Losses) float64
}

// objectives lists the losses that the settings train on.
func (d *demo) objectives() []objective {
	o := d.settings.Trainer.Options()
	var list []objective
	add := func(weight float64, name string, of func(trainer.Losses) float64) {
		if weight > 0 {
			list = append(list, objective{name, of})
		}
	}
	add(o.ITCWeight, "ITC", func(l trainer.Losses) float64 { return l.ITC })
	add(o.ITMWeight, "ITM", func(l trainer.Losses) float64 { return l.ITM })
	add(o.MLMWeight, "MLM", func(l trainer.Losses) float64 { return l.MLM })
	add(o.UniWeight, "uni-modal", func(l trainer.Losses) float64 { return l.Uni })
	return list
}

// recordCounts holds the numbers of records in the topics, without repetitions.
type recordCounts struct {
	embeddings, groups, batches, scored, features, deadLetters int
	ruledOut                                                   int // candidates
	reasons                                                    map[string]int
}

func countRecords(ctx context.Context, log *stream.Log) (recordCounts, error) {
	c := recordCounts{reasons: map[string]int{}}
	for lane := range log.Config().Lanes {
		for topic, n := range map[schemas.Topic]*int{
			schemas.Embeddings: &c.embeddings, schemas.Groups: &c.groups, schemas.Batches: &c.batches,
			schemas.Scored: &c.scored, schemas.Features: &c.features,
		} {
			for rec, err := range log.Records(ctx, topic, lane, stream.Position{}, -1) {
				if err != nil {
					return c, fmt.Errorf("counting %s in lane %d: %w", topic, lane, err)
				}
				if rec.Schema == schemas.SchemaSeal || rec.Schema == schemas.SchemaRefusal {
					continue
				}
				*n++
			}
		}
		for b, err := range stream.Values[*schemas.ScoredBatch](ctx, log, schemas.Scored, lane) {
			if err != nil {
				return c, fmt.Errorf("counting what Con-D's vectors have ruled out: %w", err)
			}
			c.ruledOut += int(b.RuledOut)
		}
	}
	for d, err := range log.DeadLetters(ctx) {
		if err != nil {
			return c, fmt.Errorf("counting dead letters: %w", err)
		}
		c.deadLetters++
		reason, _, _ := strings.Cut(d.Reason, ":")
		c.reasons[reason]++
	}
	return c, nil
}

// print prints the tables.
func (d *demo) print(c recordCounts, a inspect.Account) {
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	share := func(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
	fmt.Fprintf(d.out, "\n%s\n\n", won(d.arms()))
	row("pairs published", "%d", d.summary.Messages-d.summary.Seals)
	row("  encoded", "%d", c.embeddings)
	row("  dead-lettered", "%d%s", c.deadLetters, reasonList(c.reasons))
	row("account", "%s", a)
	row("groups", "%d in %d lanes", c.groups, len(d.summary.PerLane))
	row("mini-batches", "%d", c.batches)
	for i, line := range d.guard.Lines() {
		row([]string{"Con-D, before it mines", ""}[min(i, 1)], "%s", line)
	}
	n := d.steps.counts
	row("candidates scored by Con-D", "%d", n.Candidates)
	if d.truth != nil && d.truth.candidates > 0 {
		row("", "%s", d.truth.base())
	}
	row("  ruled out by its vectors", "%.1f %%", share(c.ruledOut, n.Candidates))
	row("  connections", "%d (%.1f %%)", n.Confirmed, share(n.Confirmed, n.Candidates))
	if d.truth != nil && d.truth.confirmed > 0 {
		row("", "%s", d.truth)
	}
	row("training steps", "%d", d.steps.count())
	row("  samples", "%d = %d in groups x %d epochs; %d of them masked", n.Samples+n.Masked, a.Closed.Members, d.Epochs, n.Masked)
	row("pairs/s", "producer %.0f, encoder %.0f, indexer %.0f, grouper %.0f, discriminator %.0f, trainer %.0f",
		d.gauges["producer"].Rate(), d.gauges["encoder"].Rate(), d.gauges["indexer"].Rate(),
		d.gauges["grouper"].Rate()*demoBatch, d.gauges["discriminator"].Rate()*demoBatch, d.gauges["trainer"].Rate()*demoBatch)
	row("time on sampling", "%s", d.sampling())
	for _, o := range d.objectives() {
		first, last := d.steps.ends(o.of)
		row("loss "+o.name, "%.3f at the start, %.3f at the end", first, last)
	}
	row("checkpoint", "%s", d.checkpoint)
	row("everything else", "%s", d.Dir)
	row("time", "%.0f s in all, %.0f s of it streaming", time.Since(d.started).Seconds(), d.streaming.Seconds())
	t.Flush()
	d.reportModels()
	fmt.Fprintf(d.out, "\nto see the runs side by side, and to run this one again:\n  %s\n", strings.Join(d.commands(), "\n  "))
}

// commands returns commands that compare all runs on a page, and that repeat the demo's own.
func (d *demo) commands() (list []string) {
	var manifests []string
	for _, a := range append([]*arm{d.arm}, d.rivals...) {
		manifest, namespace := filepath.Join(d.Dir, cmp.Or(a.name, "run")+".json"), ""
		if a.name != "" {
			namespace = "NAMESPACE=" + a.name + " "
		}
		list = append(list, fmt.Sprintf("%s%s run-manifest --data %s --out %s", namespace, os.Args[0], d.Dir, manifest))
		manifests = append(manifests, manifest)
	}
	return append(list,
		fmt.Sprintf("%s compare %s --html %s", os.Args[0], strings.Join(manifests, " "), filepath.Join(d.Dir, "compare.html")),
		fmt.Sprintf("%s replay %s --data %s --namespace again", os.Args[0], manifests[0], d.Dir))
}

// reportModels prints the measures of the models of all runs.
func (d *demo) reportModels() {
	fmt.Fprintf(d.out, "\nwhat the mini-batches taught, by %d held-out images with %d captions; one start, %d steps each\n",
		d.before.Images, d.before.Texts, d.steps.count())
	r := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(r, "\tfalse negatives, %\tAUC of ITM, %\tfalse alarms, %\tmissed, %\tR@1 by ITC, %\tR@1 re-ranked, %\t")
	line := func(title, untrue string, x *eval.Report) {
		fmt.Fprintf(r, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", title, untrue,
			x.Match.AUC, x.Match.Negative, x.Match.Positive, (x.ITC.TR.R1+x.ITC.IR.R1)/2, (x.ITM.TR.R1+x.ITM.IR.R1)/2)
	}
	line("first model", "-", d.before)
	for _, a := range d.arms() {
		untrue := "-"
		if d.truth != nil {
			untrue = fmt.Sprintf("%.1f", a.hardest.remaining())
		}
		line(a.title, untrue, a.report)
	}
	r.Flush()
	fmt.Fprint(d.out, d.legend())
}

// won returns a sentence with the run that has the highest AUC of ITM, and its lead over random mini-batches.
func won(arms []*arm) string {
	best := slices.MaxFunc(arms, func(a, b *arm) int { return cmp.Compare(a.report.Match.AUC, b.report.Match.AUC) })
	text := fmt.Sprintf("%s: the highest AUC of ITM, %.1f %%", best.title, best.report.Match.AUC)
	if random := slices.IndexFunc(arms, func(a *arm) bool { return a.title == randomTitle }); random >= 0 && arms[random] != best {
		text += fmt.Sprintf(", %.1f above %s", best.report.Match.AUC-arms[random].report.Match.AUC, randomTitle)
	}
	return text + ". This is one seed, which cannot tell it from chance; docs/experiments.md compares many"
}

// legend explains the columns of the table.
func (d *demo) legend() string {
	negatives := "other captions of the data may be true of the picture"
	if d.matches() != nil {
		negatives = "none of them is true of the picture"
	}
	text := "  AUC, false alarms, missed: the matching head on true pairs and on the first model's hardest negatives; " + negatives + "\n" +
		"  R@1: mean of both directions, by similarity, and with the matching head's order of the 16 most similar\n" +
		"  on other processors the figures differ in their last digits\n"
	if d.settings.Grouper.Options().Candidates > 0 && d.steps.counts.Confirmed == 0 {
		text += "  no connection was made, so that " + d.title + " trained as GRIT does\n"
	}
	if d.truth != nil {
		text = fmt.Sprintf("  false negatives: hardest negatives that are %s, and that training takes for negatives\n", d.truth.says) + text
	}
	return text
}

func reasonList(reasons map[string]int) string {
	if len(reasons) == 0 {
		return ""
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, reasons[reason]))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// sampling returns the processor time of encoder, indexer, grouper and discriminator as a share of the trainer's. It
// includes reading images and the log. Decoding counts for no stage, because all stages share one cache of decoded
// images. Unlike wall-clock time, processor time does not depend on other programs on the machine.
func (d *demo) sampling() string {
	seconds := func(stage string) float64 { return d.spent[stage].Seconds() }
	training := seconds(trainerservice.Name)
	encoding, indexing := seconds(encoderservice.Name), seconds(indexerservice.Name)
	grouping, scoring := seconds(grouperservice.Name), seconds(discriminatorservice.Name)
	return fmt.Sprintf("%.1f %% of training's %.1f s of the processor (encode %.1f s, index %.1f s, group %.1f s, discriminate %.1f s); %.1f s decoded images, once for all runs",
		100*(encoding+indexing+grouping+scoring)/training, training, encoding, indexing, grouping, scoring, seconds(shard.Decoding))
}

// verify checks the conditions of --check.
func (d *demo) verify(c recordCounts, a inspect.Account) error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	must(a.Adds() && a.Waiting+a.Open+a.Closed.Since == 0, "the account does not close: %s", a)
	must(a.Published == int64(d.summary.Messages), "%d records were published, and the account is of %d: %s", d.summary.Messages, a.Published, a)
	n := d.steps.counts
	must(int64(n.Samples+n.Masked) == a.Closed.Members*int64(d.Epochs), "%d pairs were trained on and %d masked, want %d in each of %d epochs: %s",
		n.Samples, n.Masked, a.Closed.Members, d.Epochs, a)
	must(int64(c.deadLetters) == a.SetAside(), "%d dead letters, want %d: %s", c.deadLetters, a.SetAside(), a)
	must(c.batches == c.scored && c.scored == c.features && int64(c.features) == d.steps.count(),
		"%d batches, %d scored, %d steps, %d feature blocks: want as many of each", c.batches, c.scored, d.steps.count(), c.features)
	for _, o := range d.objectives() {
		first, last := d.steps.ends(o.of)
		must(last < first || d.growing(o.name), "loss %s did not fall: %.3f at the start, %.3f at the end", o.name, first, last)
	}
	return errors.Join(problems...)
}

// growing reports whether a loss may rise during the run. The candidates of ITC grow with the momentum queue, which is
// empty at first and seldom full at the end of a demo. A connection shares the row of its pair, so the loss of that row
// is never below log 2, and ITC follows the number of connections.
func (d *demo) growing(loss string) bool {
	o := d.settings.Trainer.Options()
	return loss == "ITC" && (o.Momentum.Queue > 0 || o.ECM.ITC)
}

// publishEvaluations publishes the measures before and after training to the log of every run, for the console and the
// report.
func (d *demo) publishEvaluations(ctx context.Context) error {
	for _, a := range d.arms() {
		p := a.log.NewPublisher(stream.PublisherOptions{})
		var err error
		for _, e := range []struct {
			step   int64
			report *eval.Report
		}{{0, d.before}, {a.steps.count(), a.report}} {
			err = errors.Join(err, p.Publish(ctx, schemas.ProgressLog, 0, &schemas.Progress{
				Kind: schemas.ProgressEval, Step: e.step, Time: time.Now().UnixMilli(), Values: d.measures(a, e.report),
			}))
		}
		if err = errors.Join(err, producer.ClosePublisher(p)); err != nil {
			return fmt.Errorf("publishing the evaluations: %w", err)
		}
	}
	return nil
}

// measures returns the values of an evaluation for the topic progress. The last one of a run includes its false
// negatives.
func (d *demo) measures(a *arm, r *eval.Report) schemas.Measures {
	m := r.Measures()
	if d.truth != nil && r != d.before {
		m["false_negatives"] = a.hardest.remaining()
	}
	return m
}

// reranked is the number of candidates that the matching head ranks again.
const reranked = 16

// measure evaluates the first model and the last checkpoint of every run. All models score the hard negatives of the
// first model, without captions that are true of the picture.
func (d *demo) measure(ctx context.Context) error {
	w, err := d.newWorker()
	if err != nil {
		return err
	}
	defer w.Close()
	hard := eval.Options{TopK: reranked, Matches: d.matches()}
	if d.before, err = d.evaluate(ctx, w, d.weights(), hard); err != nil {
		return err
	}
	hard.Mining = &d.before.Sim
	for _, a := range d.arms() {
		if a.report, err = d.evaluate(ctx, w, a.checkpoint, hard); err != nil {
			return err
		}
	}
	return nil
}

// matches returns a function that reports whether a held-out caption is true of a picture, or nil if that is not known.
func (d *demo) matches() func(image, text int) bool {
	if d.known == nil || !d.known.held {
		return nil
	}
	return func(image, text int) bool {
		_, id := d.held.Image(image)
		caption, _, _ := d.held.Pair(text)
		return d.known.fits(id, caption)
	}
}
