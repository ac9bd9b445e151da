package eval

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// WinogroundScores are the scores of Winoground (Thrush et al. 2022, section 4.1) over examples of two images and two
// captions. An equal score is a wrong answer.
type WinogroundScores struct {
	Text  Measured `json:"text"`  // both images prefer their own caption
	Image Measured `json:"image"` // both captions prefer their own image
	Group Measured `json:"group"` // both
}

// WinogroundReport is the result on such examples.
type WinogroundReport struct {
	Examples int               `json:"examples"`
	ITC      WinogroundScores  `json:"itc"`           // by similarity
	ITM      *WinogroundScores `json:"itm,omitempty"` // by the matching head; nil: the weights have none
	Chance   struct {
		Text  float64 `json:"text"`
		Image float64 `json:"image"`
		Group float64 `json:"group"`
	} `json:"chance"` // expectation for random scores
}

// newWinogroundReport returns a report of similarities. Images and texts 2i and 2i+1 are example i, a text beside its
// own image.
func newWinogroundReport(sim func(image, text int) float64, examples int) *WinogroundReport {
	r := &WinogroundReport{Examples: examples, ITC: winogroundScores(sim, examples)}
	r.Chance.Text, r.Chance.Image, r.Chance.Group = 100./4, 100./4, 100./6
	return r
}

// winogroundScores counts the examples that a score gets right.
func winogroundScores(score func(image, text int) float64, examples int) WinogroundScores {
	texts, images, groups := 0, 0, 0
	for i := range examples {
		a, b := 2*i, 2*i+1
		text := score(a, a) > score(a, b) && score(b, b) > score(b, a)
		image := score(a, a) > score(b, a) && score(b, b) > score(a, b)
		if text {
			texts++
		}
		if image {
			images++
		}
		if text && image {
			groups++
		}
	}
	share := func(n int) Measured { return measured(interval.Of(n, examples)) }
	return WinogroundScores{share(texts), share(images), share(groups)}
}

// Winoground measures a model, by similarity and by its matching head, on the data of [dataset.ReadWinoground].
func Winoground(ctx context.Context, m *model.Model, d Data) (r *WinogroundReport, err error) {
	truth, err := NewTruth(d.Images, d.ImageOf)
	if err == nil && (d.Images == 0 || d.Images%2 != 0 || len(d.Texts) != d.Images) {
		err = fmt.Errorf("%d images and %d texts, want two of each an example", d.Images, len(d.Texts))
	}
	if err != nil {
		return nil, fmt.Errorf("measuring on Winoground: %w", err)
	}
	e := evaluation{model: m, data: d, truth: truth, report: &Report{}}
	e.options.fill()
	measure := func(s *torch.Scope) error {
		if err := e.encode(ctx, s); err != nil {
			return err
		}
		r = newWinogroundReport(func(image, text int) float64 { return float64(e.report.Sim.Row(image)[text]) }, d.Images/2)
		var pairs []Pair
		at := map[Pair]int{}
		for image := range int32(d.Images) {
			for _, text := range []int32{image, image ^ 1} { // its own text, and the other of the example
				at[Pair{image, text}] = len(pairs)
				pairs = append(pairs, Pair{image, text})
			}
		}
		logits, err := e.score(ctx, s, pairs)
		if err != nil {
			return err
		}
		scores := winogroundScores(func(image, text int) float64 {
			l := logits[at[Pair{int32(image), int32(text)}]]
			return float64(l.Match - l.Mismatch)
		}, d.Images/2)
		r.ITM = &scores
		return nil
	}
	err = m.Worker().Do(ctx, func(s *torch.Scope) (err error) {
		s.NoGrad(func() { err = measure(s) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("measuring on Winoground: %w", err)
	}
	return r, nil
}

// WinogroundEncoder measures an encoder, by similarity, on the corpus of [dataset.ReadWinoground].
func WinogroundEncoder(
	ctx context.Context, e *model.Encoder, source *shard.Images, c *dataset.Corpus,
) (*WinogroundReport, error) {
	var images []float32
	var captions []string
	for i := range c.Images() {
		caption, _, _ := c.Pair(i)
		captions = append(captions, caption)
	}
	load := pixelsOf(e.Preprocessing(), source, c)
	err := encodeAll(ctx, e, c.Images(), load, func(_ int, rows []float32) { images = append(images, rows...) })
	if err != nil {
		return nil, fmt.Errorf("measuring on Winoground: %w", err)
	}
	texts, err := e.EncodeTexts(ctx, captions)
	if err != nil {
		return nil, err
	}
	dim := e.Dim()
	sim := func(image, text int) float64 {
		sum := 0.0
		for k, v := range images[image*dim : (image+1)*dim] {
			sum += float64(v) * float64(texts[text*dim+k])
		}
		return sum
	}
	return newWinogroundReport(sim, c.Images()/2), nil
}

// Print prints the scores as a table.
func (r *WinogroundReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d examples of two images and two captions\n", r.Examples)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\ttext, %\tfrom\tto\timage, %\tfrom\tto\tgroup, %\tfrom\tto\t")
	row := func(name string, s WinogroundScores) {
		fmt.Fprintf(t, "%s\t", name)
		for _, m := range []Measured{s.Text, s.Image, s.Group} {
			fmt.Fprintf(t, "%.1f\t%.1f\t%.1f\t", m.Percent, m.From, m.To)
		}
		fmt.Fprintln(t)
	}
	row("ITC", r.ITC)
	if r.ITM != nil {
		row("ITM", *r.ITM)
	}
	fmt.Fprintf(t, "chance\t%.1f\t\t\t%.1f\t\t\t%.1f\t\t\t\n", r.Chance.Text, r.Chance.Image, r.Chance.Group)
	return t.Flush()
}
