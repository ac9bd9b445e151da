//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/negatives"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

func newEvalCommand() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use: "eval " + tarsUse,
		Long: "Measures a checkpoint on the pairs of tars: text and image retrieval R@1/5/10 by ITC alone and with the\n" +
			"first candidates ranked again by ITM, compared with chance, and the error of the matching head. Captions are beside the\n" +
			"images in the tars, or in Karpathy's JSON of COCO or Flickr30k, or in one of ALBEF's lists. --cond measures the model as\n" +
			"connection discriminator (Con-D), on the hardest negatives of every pair. For generated scenes the truth is known.\n\n" +
			"--zeroshot classifies images whose tars have a number, key.cls, beside each image, or a folder for each class. Its file\n" +
			"has a class a line, and the first is class 0. --winoground scores examples of two images and two captions. Both also take\n" +
			"CLIP's and open_clip's weights and TorchScript, as ENCODER_CHECKPOINT does:\n\n" +
			"  pairstream eval --zeroshot classes.txt --checkpoint data/bootstrap.safetensors cifar10.tar\n" +
			"  pairstream eval --winoground examples.jsonl --checkpoint data/bootstrap.safetensors images.tar",
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
			e.cache, e.log = device.CacheBytes(), cmd.ErrOrStderr()
			report, err := e.measure(cmd.Context(), worker, places(paths))
			return printAs(cmd.OutOrStdout(), e.asJSON, report, func(w io.Writer) error { return report.Print(w) }, err)
		},
	}
	e.addFlags(cmd)
	cmd.AddCommand(newNegativesCommand())
	return cmd
}

// addFlags adds the flags of `pairstream eval`.
func (e *evaluation) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.checkpoint, "checkpoint", "data/bootstrap.safetensors", "weights or checkpoint to measure, or where open_clip or transformers saved a CLIP")
	f.IntVar(&e.heldOut, "holdout", 0, "measure on this many images, those that `produce --holdout` kept back; 0: all")
	f.StringVar(&e.captions, "captions", "", "JSON with captions by file name of the image: dataset_coco.json, dataset_flickr30k.json, ALBEF's coco_test.json")
	f.StringVar(&e.split, "split", "test", "splits of Karpathy's JSON to measure on, comma separated: test, val, train, restval")
	f.IntVar(&e.topK, "rerank", 0, "candidates ranked again by ITM (the papers: 256 on COCO, 128 on Flickr30k); 0: all, -1: none")
	f.BoolVar(&e.vision, "vision", false, "how much the image improves the prediction of hidden words (UoV, GRIT-VLP 5.6)")
	f.BoolVar(&e.cond, "cond", false, "measure the connection discriminator (Con-D) on easy and hard pairs, and print its card")
	f.Float64Var(&e.baseRate, "base-rate", eval.DefaultBaseRate, "assumed share of true pairs among the hard ones, for --cond on data of unknown truth")
	f.StringVar(&e.classes, "zeroshot", "", "file of classes, one a line, several names separated by commas: classify images by the nearest class")
	f.StringVar(&e.templates, "templates", "", "file of sentences with {} for the class, for --zeroshot; empty: seven of CLIP's for ImageNet")
	f.StringVar(&e.winoground, "winoground", "", "examples.jsonl of Winoground: score examples of two images and two captions")
	f.StringVar(&e.vocab, "vocab", "", "file of the words, as ENCODER_VOCAB, for weights without them inside, with --zeroshot or --winoground")
	f.BoolVar(&e.asJSON, "json", false, "print JSON")
	for _, other := range []string{"cond", "vision", "rerank", "captions", "holdout"} {
		cmd.MarkFlagsMutuallyExclusive("zeroshot", "winoground", other)
	}
	cmd.MarkFlagsMutuallyExclusive("winoground", "templates")
	cmd.MarkFlagsMutuallyExclusive("cond", "vision")
	cmd.MarkFlagsMutuallyExclusive("cond", "rerank")
	cmd.MarkFlagsMutuallyExclusive("captions", "holdout")
}

// printed is a report of an evaluation.
type printed interface{ Print(io.Writer) error }

// measure makes the report that the flags ask for.
func (e evaluation) measure(ctx context.Context, w *torch.Worker, paths []string) (report printed, err error) {
	if e.checkpoint, err = model.WeightsIn(e.checkpoint); err != nil {
		return nil, fmt.Errorf("--checkpoint: %w", err)
	}
	switch {
	case e.classes != "":
		return evaluateZeroShot(ctx, w, paths, e)
	case e.winoground != "":
		return evaluateWinoground(ctx, w, paths, e)
	case e.templates != "" || e.vocab != "":
		return nil, errors.New("--templates and --vocab belong to --zeroshot or --winoground: name one, or leave them out")
	case e.cond:
		return evaluateCond(ctx, w, paths, e)
	}
	return evaluate(ctx, w, paths, e)
}

func newNegativesCommand() *cobra.Command {
	var j negatives.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use: "negatives --judge WEIGHTS", Args: cobra.NoArgs,
		Short: "count the false negatives of a run by another model's judgement",
		Long: "Finds the negatives of ITM in an epoch of a run from the features that its steps published, and scores them with another\n" +
			"model, the judge. Negatives that the judge calls a match are false negatives (MAFA tables 1 and 9). The judge is a file\n" +
			"of weights with a matching head, or TorchScript of `python -m pairstream export-match`.",
	}
	looking(cmd, func(at logCommand) error {
		s, err := rundir.SettingsIn[negatives.Settings](at.dir)
		if err != nil {
			return err
		}
		report, err := j.Count(at.Context(), at.log, s)
		return printAs(at.OutOrStdout(), asJSON, report, func(w io.Writer) error { return report.Print(w) }, err)
	})
	f := cmd.Flags()
	f.StringVar(&j.Judge, "judge", "", "weights or TorchScript that judge")
	f.IntVar(&j.Epoch, "epoch", 0, "epoch to count in, from 0")
	f.IntVar(&j.Batches, "batches", 0, "mini-batches of each lane to look at; 0: all")
	f.Float64Var(&j.Above, "above", 0.5, "probability of a match above which a negative is false")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	require(cmd, "judge")
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
	checkpoint      string
	captions, split string // a list of images and its split; empty: the tars' own captions
	heldOut, topK   int
	vision, cond    bool
	baseRate        float64

	classes, templates string // files of zero-shot classification
	winoground         string // its examples
	vocab              string // of the encoder, if it is not in the weights

	asJSON bool
	cache  int64
	log    io.Writer // receives what was passed over
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
func (e evaluation) on(ctx context.Context, w *torch.Worker, paths []string, measure func(*model.Model, *dataset.Corpus, eval.Data) error) error {
	data, err := e.read(ctx, paths)
	if err != nil {
		return err
	}
	return e.loaded(ctx, w, paths, data, func(m *model.Model, shown eval.Data) error { return measure(m, data, shown) })
}

// loaded loads a checkpoint, and hands it to measure with a corpus.
func (e evaluation) loaded(ctx context.Context, w *torch.Worker, paths []string, data *dataset.Corpus, measure func(*model.Model, eval.Data) error) error {
	m, err := model.Load(ctx, w, e.checkpoint, model.LoadOptions{Frozen: true})
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
		err = measure(m, shown)
	}
	return errors.Join(err, closeImages())
}

// evaluate measures a checkpoint.
func evaluate(ctx context.Context, w *torch.Worker, paths []string, e evaluation) (report *eval.Report, err error) {
	err = e.on(ctx, w, paths, func(m *model.Model, _ *dataset.Corpus, shown eval.Data) error {
		report, err = eval.Evaluate(ctx, m, shown, eval.Options{TopK: e.topK, Vision: e.vision})
		return err
	})
	return report, err
}

// condEvaluation is what `eval --cond` prints: what was measured now, and what the checkpoint says of its training.
type condEvaluation struct {
	*eval.CondReport
	Card *bootstrap.Card `json:"card,omitempty"`
}

// evaluateCond measures a checkpoint as Con-D.
func evaluateCond(ctx context.Context, w *torch.Worker, paths []string, e evaluation) (*condEvaluation, error) {
	out := &condEvaluation{}
	return out, e.on(ctx, w, paths, func(m *model.Model, data *dataset.Corpus, shown eval.Data) (err error) {
		if out.Card, err = cardOf(m); err != nil {
			return fmt.Errorf("reading %s: %w", e.checkpoint, err)
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

// truthOf returns a function that reports whether a text is true of an image of generated scenes. For other tars, whose
// truth is unknown, it returns nil.
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

// Print prints what was measured, and the card.
func (e *condEvaluation) Print(w io.Writer) error {
	if err := e.CondReport.Print(w); err != nil {
		return err
	}
	if e.Card == nil {
		_, err := fmt.Fprintln(w, "the checkpoint has no card")
		return err
	}
	return e.Card.Print(w)
}
