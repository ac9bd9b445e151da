//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

func newEvalCommand() *cobra.Command {
	var checkpoint, captions, split string
	var heldOut, topK int
	var baseRate float64
	var asJSON, vision, cond bool
	cmd := &cobra.Command{
		Use: "eval " + tarsUse,
		Long: "Measures a checkpoint on the pairs of tars: text and image retrieval R@1/5/10 by ITC alone and with the\n" +
			"first candidates ranked again by ITM, next to chance, and the error of the matching head. Captions stand beside the\n" +
			"images, or come from Karpathy's JSON of COCO or Flickr30k, or from a list of ALBEF's. With --cond it measures where the\n" +
			"connection discriminator (Con-D) decides: the hardest others of every pair. The truth is known of generated scenes.",
		Args: wantArgs(1, anyNumber),
		RunE: func(cmd *cobra.Command, paths []string) error {
			s, err := config.Parse[bootstrapSettings](config.Environ())
			if err != nil {
				return err
			}
			worker, err := s.Device.NewWorker()
			if err != nil {
				return err
			}
			defer worker.Close()
			how := evaluation{
				captions: captions, split: split, heldOut: heldOut, topK: topK, vision: vision, baseRate: baseRate, cache: s.Cache, log: cmd.ErrOrStderr(),
			}
			if cond {
				report, err := evaluateCond(cmd.Context(), worker, checkpoint, places(paths), how)
				return printAs(cmd.OutOrStdout(), asJSON, report, func(w io.Writer) error { return report.print(w) }, err)
			}
			report, err := evaluate(cmd.Context(), worker, checkpoint, places(paths), how)
			return printAs(cmd.OutOrStdout(), asJSON, report, func(w io.Writer) error { return printReport(w, report) }, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&checkpoint, "checkpoint", "data/bootstrap.safetensors", "weights or checkpoint to measure")
	f.IntVar(&heldOut, "holdout", 0, "measure on this many images, those that `produce --holdout` kept back; 0: all")
	f.StringVar(&captions, "captions", "", "JSON that names images by file name and has their captions: dataset_coco.json, dataset_flickr30k.json, ALBEF's coco_test.json")
	f.StringVar(&split, "split", "test", "splits of Karpathy's JSON to measure on, comma separated: test, val, train, restval")
	f.IntVar(&topK, "rerank", 0, "candidates ranked again by ITM (the papers: 256 on COCO, 128 on Flickr30k); 0: all, -1: none")
	f.BoolVar(&vision, "vision", false, "how much better hidden words are told with the image than without (UoV, GRIT-VLP 5.6)")
	f.BoolVar(&cond, "cond", false, "measure the connection discriminator (Con-D) on easy and hard pairs, and print its card")
	f.Float64Var(&baseRate, "base-rate", eval.DefaultBaseRate, "share of true pairs among the hard ones, for --cond where nobody knows the truth")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("cond", "vision")
	cmd.MarkFlagsMutuallyExclusive("cond", "rerank")
	cmd.MarkFlagsMutuallyExclusive("captions", "holdout")
	cmd.AddCommand(newNegativesCommand())
	return cmd
}

// printAs prints a report as JSON or as text, unless there was an error.
func printAs(w io.Writer, asJSON bool, report any, text func(io.Writer) error, err error) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(w, report)
	}
	return text(w)
}

// evaluation says what to evaluate on.
type evaluation struct {
	captions, split string // a list of images and its split; empty: the tars' own captions
	heldOut, topK   int
	vision          bool
	baseRate        float64
	cache           int64
	log             io.Writer // receives what was passed over
}

// read reads what to evaluate on, and says what it passed over.
func (e evaluation) read(ctx context.Context, paths []string) (*dataset.Corpus, error) {
	if e.captions != "" {
		list, err := dataset.ReadList(e.captions, e.split)
		if err != nil {
			return nil, err
		}
		data, err := dataset.ReadListed(ctx, paths, list)
		if err == nil {
			producer.PrintPassedOver(e.log, data.Totals())
		}
		return data, err
	}
	data, held, err := dataset.Read(ctx, paths, e.heldOut)
	if err != nil {
		return nil, err
	}
	producer.PrintPassedOver(e.log, data.Totals())
	if e.heldOut > 0 {
		data = held
	}
	return data, nil
}

// on loads a checkpoint, and hands it to measure with what to evaluate on.
func (e evaluation) on(ctx context.Context, w *torch.Worker, checkpoint string, paths []string, measure func(*model.Model, *dataset.Corpus, eval.Data) error) error {
	data, err := e.read(ctx, paths)
	if err != nil {
		return err
	}
	m, err := model.Load(ctx, w, checkpoint, model.LoadOptions{Frozen: true})
	if err != nil {
		return err
	}
	defer m.Free()
	images, closeImages, err := bootstrap.Images(ctx, paths, m.Config.ImageSize, e.cache)
	if err != nil {
		return err
	}
	shown, err := eval.OfCorpus(ctx, m, images, data)
	if err == nil {
		err = measure(m, data, shown)
	}
	return errors.Join(err, closeImages())
}

// evaluate measures a checkpoint.
func evaluate(ctx context.Context, w *torch.Worker, checkpoint string, paths []string, e evaluation) (report *eval.Report, err error) {
	err = e.on(ctx, w, checkpoint, paths, func(m *model.Model, _ *dataset.Corpus, shown eval.Data) error {
		report, err = eval.Evaluate(ctx, m, shown, eval.Options{TopK: e.topK, Vision: e.vision})
		return err
	})
	return report, err
}

func printReport(w io.Writer, r *eval.Report) error {
	fmt.Fprintf(w, "%d images, %d texts\n", r.Images, r.Texts)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tTR@1\tTR@5\tTR@10\tIR@1\tIR@5\tIR@10\tRSUM\t")
	row := func(name string, x eval.Retrieval) {
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

func printVision(w io.Writer, usage []eval.Usage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "masked\twords\tMLM@1\tMLM@5\twithout image @1\t@5\tUoV@1\tUoV@5\t")
	for _, u := range usage {
		fmt.Fprintf(t, "%.0f %%\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", 100*u.Share, u.Words,
			u.With.Top1, u.With.Top5, u.Without.Top1, u.Without.Top5, u.With.Top1-u.Without.Top1, u.With.Top5-u.Without.Top5)
	}
	return t.Flush()
}

// condEvaluation is what `eval --cond` prints: what was measured now, and what the checkpoint says of its training.
type condEvaluation struct {
	*eval.CondReport
	Card *bootstrap.Card `json:"card,omitempty"`
}

// evaluateCond measures a checkpoint as Con-D.
func evaluateCond(ctx context.Context, w *torch.Worker, checkpoint string, paths []string, e evaluation) (*condEvaluation, error) {
	out := &condEvaluation{}
	return out, e.on(ctx, w, checkpoint, paths, func(m *model.Model, data *dataset.Corpus, shown eval.Data) (err error) {
		if out.Card, err = cardOf(m); err != nil {
			return fmt.Errorf("reading %s: %w", checkpoint, err)
		}
		o := eval.CondOptions{Easy: true, BaseRate: e.baseRate}
		if e.captions == "" {
			if o.Holds, err = truthOf(ctx, paths, data); err != nil {
				return err
			}
		}
		answers, err := eval.AskCond(ctx, m, shown, o)
		if err == nil {
			out.CondReport = answers.Report(m.Calibration)
		}
		return err
	})
}

// cardOf returns the card of a model, nil if it has none.
func cardOf(m *model.Model) (*bootstrap.Card, error) {
	if m.Card == "" {
		return nil, nil
	}
	card := new(bootstrap.Card)
	if err := json.Unmarshal([]byte(m.Card), card); err != nil {
		return nil, fmt.Errorf("reading the card of the weights: %w", err)
	}
	return card, nil
}

// truthOf returns a function that knows which texts are true of which images of generated scenes. Of other tars nobody
// knows, and it returns nil.
func truthOf(ctx context.Context, paths []string, data *dataset.Corpus) (func(image, text int) bool, error) {
	shows, err := scenes.Shown(ctx, paths)
	switch {
	case errors.Is(err, scenes.ErrNotGenerated):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for what is true of the pictures: %w", err)
	}
	return func(image, text int) bool {
		_, id := data.Image(image)
		caption, _, _ := data.Pair(text)
		return scenes.Matches(shows[id], caption)
	}, nil
}

// print prints what was measured, and the card.
func (e *condEvaluation) print(w io.Writer) error {
	if err := printCond(w, e.CondReport); err != nil {
		return err
	}
	if e.Card == nil {
		_, err := fmt.Fprintln(w, "the checkpoint has no card")
		return err
	}
	return printCard(w, e.Card)
}

// printCond prints what was measured.
func printCond(w io.Writer, r *eval.CondReport) error {
	fmt.Fprintf(w, "Con-D on %d images and %d texts, each with its 2 hardest others\n", r.Images, r.Texts)
	fmt.Fprintf(w, "AUC on easy pairs %.3f: own texts against images drawn at random\n", r.EasyAUC)
	fmt.Fprintf(w, "AUC on hard pairs %.3f: own texts against the most similar others\n", r.HardAUC)
	switch {
	case r.CandidateAUC != nil:
		fmt.Fprintf(w, "true are %.1f %% of the hard pairs, counted; AUC among these %.3f\n", 100*r.BaseRate, *r.CandidateAUC)
	case r.Counted:
		fmt.Fprintf(w, "true are %.1f %% of the hard pairs, counted\n", 100*r.BaseRate)
	default:
		fmt.Fprintf(w, "true are, it is assumed, %.1f %% of the hard pairs (--base-rate); nobody knows which\n", 100*r.BaseRate)
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

// printCard prints what weights say of their training.
func printCard(w io.Writer, c *bootstrap.Card) error {
	phases := make([]string, len(c.Phases))
	for i, p := range c.Phases {
		phases[i] = fmt.Sprintf("%d %s (AUC on hard pairs %.3f)", p.Steps, p.MiniBatches, p.HardAUC)
	}
	_, err := fmt.Fprintf(w, "card: %d images with %d captions, %d steps of %d: %s\ncard: the first phase ended with %s; %d images were held out, "+
		"and on half of them AUC is %.3f easy and %.3f hard, calibration error %.1f %%\n",
		c.Images, c.Pairs, c.Steps, c.Batch, strings.Join(phases, ", "), c.Stopped, c.HeldOut,
		c.Measured.EasyAUC, c.Measured.HardAUC, 100*c.Measured.CalibrationError)
	return err
}
