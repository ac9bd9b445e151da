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

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

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

// errUnknown ends a scan of tars that are not of generated scenes.
var errUnknown = errors.New("not a generated scene")

// readScenes reads what the pictures of generated tars show. It passes over what is no pair: reading the pairs has counted it.
func readScenes(ctx context.Context, paths []string) (map[schemas.ImageID]scenes.Scene, error) {
	shows := map[schemas.ImageID]scenes.Scene{}
	_, err := shard.Scan(ctx, paths, shard.Visitor{
		Example: func(ex shard.Example) error {
			r, err := scenes.ReadRecord(ex.Meta)
			if err != nil || len(r.Scene.Objects) == 0 {
				return errUnknown
			}
			shows[ex.ImageID] = r.Scene
			return nil
		},
		Problem: func(shard.Problem) error { return nil },
	})
	return shows, err
}

// truthOf returns a function that knows which texts are true of which images of generated scenes. Of other tars nobody knows,
// and it returns nil.
func truthOf(ctx context.Context, paths []string, data *dataset.Corpus) (func(image, text int) bool, error) {
	shows, err := readScenes(ctx, paths)
	switch {
	case errors.Is(err, errUnknown):
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
	fmt.Fprintln(t, "above\town pairs, %\thard pairs, %\tprecision\trecall\t")
	known := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprintf("%.3f", *x)
	}
	for _, v := range r.Above {
		fmt.Fprintf(t, "%.2f\t%.1f\t%.1f\t%s\t%s\t\n", v.High, 100*v.Own, 100*v.Hard, known(v.Precision), known(v.Recall))
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
