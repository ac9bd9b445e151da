package eval

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Data are the held-out images and texts.
type Data struct {
	Images int
	// Pixels writes the preprocessed image (3 x S x S, no augmentation).
	Pixels func(image int, pixels []float32) error
	// Texts are token ids, [CLS] ... [SEP], not padded.
	Texts [][]int32
	// ImageOf is the image of every text.
	ImageOf []int32
}

// Values of [Options.TopK] that are not a number of candidates.
const (
	NoRerank  = -1 // similarities alone
	RerankAll = 0
)

// Options set an evaluation.
type Options struct {
	// Batch is the number of images or texts encoded at once; 0: 32.
	Batch int
	// Part is the number of pairs that the matching head scores at once; 0: 128.
	Part int
	// TopK is the number of candidates that the matching head ranks again. The papers use 256 for COCO and 128 for Flickr.
	// [RerankAll] and [NoRerank] are other values.
	TopK int
	// Vision adds the usage of vision, which needs an MLM head and a vocabulary.
	Vision bool
	// VisionWords, if set, reports which hidden words count for the usage of vision, in the form of the vocabulary.
	VisionWords func(word string) bool
	// Mining, if set, chooses the hard negatives of the matching error in place of the model's own similarities, so
	// that several models are asked about the same pairs. It has a row for every image and a column for every text.
	Mining *Matrix
	// Matches, if set, reports which texts are true of images that are not their own. These pairs are no negatives of
	// the matching error.
	Matches func(image, text int) bool
	// AnyTrue counts them as found in retrieval. Chance stays that of the own ones.
	AnyTrue bool
}

// fill sets the defaults.
func (o *Options) fill() {
	if o.Batch == 0 {
		o.Batch = 32
	}
	if o.Part == 0 {
		o.Part = 128
	}
}

// MatchError holds the shares of wrong decisions of the matching head, in percent; 50 is chance.
type MatchError struct {
	Positive float64 `json:"positive"` // true pairs taken for mismatches
	Negative float64 `json:"negative"` // hardest wrong pairs of every image and every text, taken for matches
	Error    float64 `json:"error"`    // the mean of both: as many true pairs as hardest negatives
	// AUC is the chance, in percent, that a true pair gets a higher probability than one of these negatives.
	AUC float64 `json:"auc"`
}

// Report is the result of an evaluation.
type Report struct {
	Images int        `json:"images"`
	Texts  int        `json:"texts"`
	ITC    Retrieval  `json:"itc"`             // by similarity alone
	ITM    *Retrieval `json:"itm,omitempty"`   // with the candidates ranked again; nil: not requested
	TopK   int        `json:"top_k,omitempty"` // candidates ranked again
	Chance Retrieval  `json:"chance"`          // expectation for random scores
	Match  MatchError `json:"matching_error"`  // of the matching head
	Vision []Usage    `json:"uov,omitempty"`   // at each masking probability of GRIT-VLP; nil: not requested
	Sim    Matrix     `json:"-"`               // similarities, for [Options.Mining] of another model
}

// Measures returns the figures of a report on the topic progress.
func (r *Report) Measures() schemas.Measures {
	x := r.ITC
	m := schemas.Measures{
		"tr_r1": x.TR.R1, "tr_r5": x.TR.R5, "tr_r10": x.TR.R10, "ir_r1": x.IR.R1, "ir_r5": x.IR.R5, "ir_r10": x.IR.R10,
		"recall": x.Mean(), "matching_error": r.Match.Error, "auc": r.Match.AUC, "false_alarms": r.Match.Negative, "missed": r.Match.Positive,
	}
	if r.ITM != nil {
		m["reranked_r1"] = (r.ITM.TR.R1 + r.ITM.IR.R1) / 2
	}
	return m
}

// Evaluate encodes the data with a model and measures it. Images and texts stay on the device until it is done.
func Evaluate(ctx context.Context, m *model.Model, d Data, o Options) (*Report, error) {
	truth, err := NewTruth(d.Images, d.ImageOf)
	if err == nil && (len(d.Texts) != len(d.ImageOf) || d.Images == 0) {
		err = fmt.Errorf("%d images, %d texts and the images of %d", d.Images, len(d.Texts), len(d.ImageOf))
	}
	if err == nil && o.Mining != nil && (o.Mining.Rows != d.Images || o.Mining.Cols != len(d.Texts)) {
		err = fmt.Errorf("mining by %d x %d similarities for %d images and %d texts", o.Mining.Rows, o.Mining.Cols, d.Images, len(d.Texts))
	}
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	o.fill()
	r := &Report{Images: d.Images, Texts: len(d.Texts), Chance: Chance(truth)}
	err = m.Worker().Do(ctx, func(s *torch.Scope) error {
		e := evaluation{model: m, data: d, options: o, truth: truth, report: r}
		var err error
		s.NoGrad(func() { err = e.run(ctx, s) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("evaluating: %w", err)
	}
	return r, nil
}

type evaluation struct {
	model   *model.Model
	data    Data
	options Options
	truth   Truth
	report  *Report
	encoded model.Encoded
}

func (e *evaluation) run(ctx context.Context, s *torch.Scope) error {
	if err := e.encode(ctx, s); err != nil {
		return err
	}
	found := e.truth
	if e.options.AnyTrue && e.options.Matches != nil {
		found = found.With(e.options.Matches)
	}
	e.report.ITC = ByITC(e.report.Sim, found)
	if err := e.matching(ctx, s); err != nil {
		return err
	}
	if e.options.Vision {
		if err := e.vision(ctx, s); err != nil {
			return err
		}
	}
	if e.options.TopK == NoRerank {
		return nil
	}
	rerank := NewRerank(e.report.Sim, found, e.options.TopK)
	pairs := rerank.Pairs()
	logits, err := e.score(ctx, s, pairs)
	if err != nil {
		return err
	}
	scores := make([]float32, len(logits))
	for i, l := range logits {
		scores[i] = l.Match // the reference ranks by this logit alone
	}
	again := rerank.Recalls(pairs, scores)
	e.report.ITM, e.report.TopK = &again, rerank.k
	return nil
}

// encode encodes everything once, in batches, and compares every image with every text.
func (e *evaluation) encode(ctx context.Context, s *torch.Scope) error {
	ids, mask, err := model.Texts(s, e.data.Texts, int32(max(0, slices.Index(e.model.Vocab, "[PAD]"))), e.model.Config)
	if err != nil {
		return err
	}
	hidden, texts, err := e.inBatches(ctx, s, len(e.data.Texts), func(s *torch.Scope, from, n int) (rows, features *torch.Tensor, err error) {
		rows = e.model.Text(s, s.Narrow(ids, 0, int64(from), int64(n)), s.Narrow(mask, 0, int64(from), int64(n)))
		return rows, e.model.TextFeature(s, rows), nil
	})
	if err != nil {
		return err
	}
	tokens, images, err := e.inBatches(ctx, s, e.data.Images, e.encodeImages)
	if err != nil {
		return err
	}
	e.encoded = model.Encoded{Hidden: hidden, Mask: mask, Tokens: tokens}
	e.report.Sim = Matrix{Rows: e.data.Images, Cols: len(e.data.Texts), Data: s.MatMul(images, s.Transpose(texts, 0, 1)).Float32s()}
	return nil
}

// encodeImages loads and encodes one batch of images.
func (e *evaluation) encodeImages(s *torch.Scope, from, n int) (rows, features *torch.Tensor, err error) {
	size := 3 * e.model.Config.ImageSize * e.model.Config.ImageSize
	pixels := make([]float32, n*size)
	for i := range n {
		if err := e.data.Pixels(from+i, pixels[i*size:(i+1)*size]); err != nil {
			return nil, nil, fmt.Errorf("loading image %d: %w", from+i, err)
		}
	}
	input, err := model.Images(s, pixels, n, e.model)
	if err != nil {
		return nil, nil, err
	}
	rows = e.model.Image(s, input)
	return rows, e.model.ImageFeature(s, rows), nil
}

// encoder encodes inputs [from, from+n) and returns their rows and features.
type encoder func(s *torch.Scope, from, n int) (rows, features *torch.Tensor, err error)

// inBatches encodes all inputs in batches and joins the results.
func (e *evaluation) inBatches(ctx context.Context, s *torch.Scope, inputs int, encode encoder) (rows, features *torch.Tensor, err error) {
	var all, allFeatures []*torch.Tensor
	for from := 0; from < inputs; from += e.options.Batch {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		var batch, batchFeatures *torch.Tensor
		err := s.Nest(func(inner *torch.Scope) error {
			rows, features, err := encode(inner, from, min(e.options.Batch, inputs-from))
			if err != nil {
				return err
			}
			batch, batchFeatures = inner.Keep(rows), inner.Keep(features)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		all, allFeatures = append(all, s.Adopt(batch)), append(allFeatures, s.Adopt(batchFeatures))
	}
	return s.Cat(0, all...), s.Cat(0, allFeatures...), nil
}

// blockPairs is the largest number of pairs whose images and texts are prepared together.
const blockPairs = 4096

// score runs the matching head over pairs, block by block.
func (e *evaluation) score(ctx context.Context, s *torch.Scope, pairs []Pair) ([]model.Logits, error) {
	logits := make([]model.Logits, 0, len(pairs))
	for len(pairs) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		block := pairs[:min(blockPairs, len(pairs))]
		pairs = pairs[len(block):]
		err := s.Nest(func(s *torch.Scope) error {
			local, images, texts := localise(block)
			rows := func(x *torch.Tensor, of []int64) *torch.Tensor {
				return s.IndexSelect(x, 0, s.Int64s(of, int64(len(of))))
			}
			part, err := model.Score(s, e.model, model.Encoded{
				Hidden: rows(e.encoded.Hidden, texts), Mask: rows(e.encoded.Mask, texts), Tokens: rows(e.encoded.Tokens, images),
			}, local, e.options.Part)
			logits = append(logits, part...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// localise renumbers the images and texts of some pairs from 0.
func localise(pairs []Pair) (local []model.Pair, images, texts []int64) {
	number := func(seen map[int32]int32, list *[]int64, row int32) int32 {
		i, known := seen[row]
		if !known {
			i = int32(len(*list))
			seen[row] = i
			*list = append(*list, int64(row))
		}
		return i
	}
	seenImages, seenTexts := map[int32]int32{}, map[int32]int32{}
	for _, p := range pairs {
		local = append(local, model.Pair{Image: number(seenImages, &images, p.Image), Text: number(seenTexts, &texts, p.Text)})
	}
	return local, images, texts
}

// matching measures the matching head's decisions.
func (e *evaluation) matching(ctx context.Context, s *torch.Scope) error {
	mining := e.report.Sim
	if e.options.Mining != nil {
		mining = *e.options.Mining
	}
	positives, negatives := e.truth.pairs(), e.truth.hardestNegatives(mining, e.options.Matches)
	var judged []auc.Judgement
	matched := func(pairs []Pair, holds bool) (float64, error) {
		logits, err := e.score(ctx, s, pairs)
		count := 0
		for _, l := range logits {
			judged = append(judged, auc.Judgement{P: l.Match - l.Mismatch, True: holds})
			if l.Match > l.Mismatch {
				count++
			}
		}
		return 100 * float64(count) / float64(max(1, len(pairs))), err
	}
	accepted, err := matched(positives, true)
	if err != nil {
		return err
	}
	fooled, err := matched(negatives, false)
	if err != nil {
		return err
	}
	e.report.Match = MatchError{Positive: 100 - accepted, Negative: fooled, Error: (100 - accepted + fooled) / 2, AUC: 100 * auc.Of(judged)}
	return nil
}

// OfCorpus returns the images and texts of a corpus in the form of retrieval inputs.
func OfCorpus(ctx context.Context, m *model.Model, source *shard.Images, c *dataset.Corpus) (Data, error) {
	words, err := m.Words()
	if err != nil {
		return Data{}, err
	}
	return FromCorpus(ctx, c, source, words, m.Config.ImageSize, m.Config.RetrievalTokens()), nil
}

// FromCorpus returns a corpus as the data of an evaluation: images of size x size pixels, texts of at most length
// tokens.
func FromCorpus(ctx context.Context, c *dataset.Corpus, source *shard.Images, words *token.WordPiece, size, length int) Data {
	d := texts(c, words, length)
	d.Pixels = func(i int, pixels []float32) error {
		ref, id := c.Image(i)
		im, err := source.Get(ctx, ref, id)
		if err == nil {
			imaging.Preprocess{Size: size}.Into(pixels, im)
		}
		return err
	}
	return d
}

// Held returns the data of [FromCorpus], for several evaluations. It loads all images at once, several at a time, and
// keeps them in memory: 3 x size x size bytes each.
func Held(ctx context.Context, c *dataset.Corpus, source *shard.Images, words *token.WordPiece, size, length int) (Data, error) {
	d := texts(c, words, length)
	fit := imaging.Preprocess{Size: size}
	pictures := make([]*imaging.Image, c.Images())
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(dataset.Readers())
	for i := range pictures {
		loading.Go(func() error {
			ref, id := c.Image(i)
			im, err := source.Get(ctx, ref, id)
			if err == nil {
				pictures[i] = fit.Fit(im)
			}
			return err
		})
	}
	if err := loading.Wait(); err != nil {
		return Data{}, err
	}
	d.Pixels = func(i int, pixels []float32) error {
		fit.Into(pixels, pictures[i])
		return nil
	}
	return d, nil
}

// texts returns data without pixels.
func texts(c *dataset.Corpus, words *token.WordPiece, length int) Data {
	d := Data{Images: c.Images()}
	for i := range c.Pairs() {
		text, image, _ := c.Pair(i)
		d.Texts = append(d.Texts, words.Encode(text, length))
		d.ImageOf = append(d.ImageOf, int32(image))
	}
	return d
}
