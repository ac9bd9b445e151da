package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
)

// Limit is what the machine would let a row reach that did nothing but its largest part, as it was measured in the same
// run.
type Limit struct {
	Value float64 `json:"value"` // in the row's unit
	Of    string  `json:"of"`
	Share float64 `json:"share"` // of the limit that the row reached
}

// enough is the share of its limit at which a row that was measured beside it has little left to win, whatever it set
// out for.
const enough = 0.8

// limited notes a limit of the row's figure.
func (r *Result) limited(value float64, of string) {
	share := value / r.Ours.Value
	if strings.HasSuffix(r.Unit, "/s") { // more is better
		share = 1 / share
	}
	r.Limit = &Limit{value, of, share}
}

// computed notes a limit of the row's figure of so many threads. The share is that of processor time, which does not
// depend on when the system's scheduler lets a second thread begin.
func (r *Result) computed(value float64, threads int, of string) {
	r.Limit = &Limit{value, of, value * float64(threads) / r.Ours.CPU}
}

// text returns the cell of the table.
func (l *Limit) text(unit string) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s; %.0f %%", l.Of, amount(l.Value, unit), 100*l.Share)
}

// limits measures the limits of rows, whose results are there.
var limits = map[string]func(context.Context, *bench, *Result) error{
	"group":       integerLimit("products of V2V, by symmetry half, and of V2T", func(n float64) float64 { return 1.5 * n * n }),
	"kmeans":      integerLimit("products of all rounds", func(n float64) float64 { return n * 1000 * kmeansRounds }),
	"walk":        codesLimit,
	"walk-large":  integerLimit("products of images and texts", func(n float64) float64 { return n * n }),
	"step-tiny":   productLimit("tiny", func(c model.Config) float64 { return c.StepOperations(stepTokens) }),
	"step-small":  productLimit("small", func(c model.Config) float64 { return c.StepOperations(stepTokens) }),
	"encode":      encodeLimit(torch.Float32),
	"encode-bf16": encodeLimit(torch.BFloat16),
	"decode-128":  decoderLimit(128),
	"decode-224":  decoderLimit(224),
	"sampling":    sampleLimit,
	fetchRowName: func(_ context.Context, _ *bench, r *Result) error {
		r.limited(r.Extra["bare"], "a client that throws the bodies away")
		return nil
	},
	"plumbing": logLimit,
	"produce":  hashLimit,
	"memory": func(_ context.Context, _ *bench, r *Result) error {
		r.limited(1_000_000*4*benchDim/float64(1<<30), "the vectors alone")
		return nil
	},
}

// The tokens of a text in the rows of models, on average.
const (
	stepTokens   = 11
	encodeTokens = 12
)

// limitRows are the pairs of rows that multiply integers.
var limitRows = map[string]float64{"group": 100_000, "kmeans": 100_000, "walk": 4_800, "walk-large": 48_000}

// integerLimit is the time of products of 16-bit rows alone; products says how many of a row and a column there are.
func integerLimit(of string, products func(n float64) float64) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		answers, err := b.alone(ctx, "integers", job{Folder: b.folder}, 1)
		if err != nil {
			return err
		}
		rate := figure(answers, func(a answer) float64 { return a.Values["per_second"] }).Value
		r.computed(products(limitRows[r.Row])*benchDim/rate, b.threads, fmt.Sprintf("%s, %.0f billion of 16-bit integers a second", of, rate/1e9))
		return nil
	}
}

// codesLimit is the time in which one thread reads the codes of all that is left for each pair of a walk, if they lay
// in the cache.
func codesLimit(ctx context.Context, b *bench, r *Result) error {
	answers, err := b.alone(ctx, "codes", job{Folder: b.folder}, 1)
	if err != nil {
		return err
	}
	rate := figure(answers, func(a answer) float64 { return a.Values["per_second"] }).Value
	n := limitRows[r.Row]
	r.computed(n*n/2*benchDim/rate, 1, fmt.Sprintf("codes of all that is left for each pair, %.0f GB a second from the cache", rate/1e9))
	return nil
}

// productLimit is the speed of a model's float32 products at that of large linear layers.
func productLimit(preset string, operations func(model.Config) float64) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		c, err := model.Preset(preset, stepVocabulary(preset))
		if err != nil {
			return err
		}
		rate, err := b.productRate(ctx, torch.Float32)
		if err != nil {
			return err
		}
		r.limited(rate/operations(c), fmt.Sprintf("the model's products, %.0f GFLOP/s of linear layers of 1,024", rate/1e9))
		return nil
	}
}

// productRate measures linear layers of 1,024 inputs and outputs, in operations a second of all threads.
func (b *bench) productRate(ctx context.Context, precision torch.DType) (float64, error) {
	answers, err := b.alone(ctx, "layers", job{Folder: b.folder, Precision: precision.String()}, 2)
	if err != nil {
		return 0, err
	}
	return figure(answers, func(a answer) float64 { return a.Values["per_second"] }).Value, nil
}

// encodeLimit is the speed of the encoder's products and of the Huffman codes of its images.
func encodeLimit(precision torch.DType) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		c, err := model.Preset("small", stepVocabulary("small"))
		if err != nil {
			return err
		}
		rate, err := b.productRate(ctx, precision)
		if err != nil {
			return err
		}
		_, entropy, err := b.decoding(ctx, c.ImageSize)
		if err != nil {
			return err
		}
		pair := (c.ImageOperations()+c.TextOperations(encodeTokens))/rate + entropy/float64(b.threads)
		r.limited(1/pair, fmt.Sprintf("the model's products, %.0f GFLOP/s of linear layers of 1,024, and Huffman codes", rate/1e9))
		return nil
	}
}

// decoderLimit is the time of decoding alone, to the pixels that the row reads.
func decoderLimit(size int) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		decode, entropy, err := b.decoding(ctx, size)
		if err != nil {
			return err
		}
		r.limited(decode*1000, fmt.Sprintf("libjpeg-turbo alone, of which Huffman codes take %.0f %%", 100*entropy/decode))
		return nil
	}
}

// decoding measures the seconds in which pairstream decodes an image of the row for a size, and those for an eighth of
// the pixels of each side. Nearly all of the latter goes to Huffman codes.
func (b *bench) decoding(ctx context.Context, size int) (decode, entropy float64, err error) {
	const n = 32
	j := job{Folder: b.folder, Options: map[string]float64{"images": n, "size": float64(size)}}
	if _, err := writePhotos(j, n); err != nil {
		return 0, 0, err
	}
	one := *b
	one.threads = 1
	seconds := func(side float64) (float64, error) {
		j.Options["side"] = side
		answers, err := one.alone(ctx, "decoder", j, 2)
		if err != nil {
			return 0, err
		}
		return figure(answers, func(a answer) float64 { return a.Seconds }).Value / n, nil
	}
	if decode, err = seconds(float64(size)); err != nil {
		return 0, 0, err
	}
	entropy, err = seconds(1)
	return decode, entropy, err
}

// sampleLimit is the share of sampling if all stages computed at one speed: the operations of the encoder and of Con-D,
// beside those of training. Both encode a pair once, whatever the epochs.
func sampleLimit(_ context.Context, _ *bench, r *Result) error {
	const epochs, candidates = 8, 2 // of the demo
	c, err := model.Preset("micro", stepVocabulary("tiny"))
	if err != nil {
		return err
	}
	once := c.ImageOperations() + c.TextOperations(stepTokens) + c.ScoreOperations(stepTokens, 0)
	often := c.ScoreOperations(stepTokens, candidates) - c.ScoreOperations(stepTokens, 0)
	r.limited(100*(once/epochs+often)/c.StepOperations(stepTokens), "the operations of the models, if all stages computed at one speed")
	return nil
}

// remeasure measures the limits of results that are there.
func (b *bench) remeasure(ctx context.Context, chosen []row, results string) error {
	byRow, err := load(results)
	if err != nil {
		return err
	}
	for _, r := range chosen {
		result, measure := byRow[r.name], limits[r.name]
		if result == nil || measure == nil {
			continue
		}
		if err := measure(ctx, b, result); err != nil {
			return fmt.Errorf("measuring the limit of row %s: %w", r.name, err)
		}
		fmt.Fprintf(b.out, "%-16s %s\n", r.name, result.Limit.text(result.Unit))
		if err := merge(results, rows, result); err != nil {
			return err
		}
	}
	return nil
}

// newIntegersWorker multiplies rows of 16-bit integers that stay in the cache, on every thread.
func newIntegersWorker(_ context.Context, j job) (worker, error) {
	return worker{"check": unchecked, "run": func(_ context.Context, a *answer) error { return integers(j.Threads, a) }}, nil
}

func integers(threads int, a *answer) error {
	const side, times = 6 * dotproduct.BlockColumns, 2000
	m := dotproduct.NewMatrix(side, benchDim)
	for i := range side {
		m.Row(i)[i%benchDim] = 1
	}
	f := dotproduct.NewFixed(m)
	panels := dotproduct.NewPanels(f)
	started := time.Now()
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			var p dotproduct.Products
			rows, columns := [dotproduct.BlockRows]int32{}, [dotproduct.BlockColumns]int32{}
			for k := range rows {
				rows[k] = math.MaxInt32
			}
			for k := range columns {
				columns[k] = math.MaxInt32
			}
			for range times {
				for panel := range side / dotproduct.BlockColumns {
					for i := 0; i < side; i += dotproduct.BlockRows {
						p.Multiply(f, i, panels, panel, &rows, &columns)
					}
				}
			}
		})
	}
	group.Wait()
	a.Values["per_second"] = float64(threads) * times * side * side * benchDim / time.Since(started).Seconds()
	return nil
}

// newCodesWorker compares codes that stay in the cache, on one thread.
func newCodesWorker(context.Context, job) (worker, error) {
	return worker{"run": codes, "check": unchecked}, nil
}

func codes(_ context.Context, a *answer) error {
	const rows, times = 1_024, 100_000
	m := dotproduct.NewMatrix(rows, benchDim)
	for i := range rows {
		m.Row(i)[i%benchDim] = 1
	}
	c := dotproduct.NewCodes(m)
	var p dotproduct.CodeProducts
	started := time.Now()
	for i := range times {
		c.Look(&p, c, int32(i%rows), 0, math.MaxInt32)
	}
	a.Values["per_second"] = float64(times) * rows * benchDim / time.Since(started).Seconds()
	return nil
}

// scanned measures how long scans of codes take: of those of centroids, which stay in the cache, and of rows of lists,
// which lie one after another in memory.
func scanned(centroids, rows int) (time.Duration, error) {
	const turns = 200
	codes := knn.Codes{Values: make([]int8, max(centroids, turns*rows)*benchDim), Scales: make([]float32, max(centroids, turns*rows)), Dim: benchDim}
	for i := range codes.Values {
		codes.Values[i] = int8(i)
	}
	query, never := make([]int16, benchDim), []float32{float32(math.Inf(1))}
	var hits []knn.CodeHit
	median := func(part func(turn int) knn.Codes) (float64, error) {
		var times []time.Duration
		for i := range turns {
			c := part(i)
			started := time.Now()
			var err error
			if hits, err = (cpu.Engine{}).ScanCodes(c, query, never, hits); err != nil {
				return 0, err
			}
			times = append(times, time.Since(started))
		}
		return percentile(times, 50), nil
	}
	ms, err := median(func(i int) knn.Codes { return codes.Part(i*rows, (i+1)*rows) })
	if err != nil {
		return 0, err
	}
	of, err := median(func(int) knn.Codes { return codes.Part(0, centroids) })
	return time.Duration((ms + of) * float64(time.Millisecond)), err
}

// layersWorker applies large linear layers to many rows, to know how fast a model's products can be on the processor.
type layersWorker struct{ worker *torch.Worker }

func newLayersWorker(_ context.Context, j job) (worker, error) {
	tensors, err := j.tensors()
	w := layersWorker{tensors}
	return worker{"run": w.run, "check": unchecked, atEnd: ending(w.free)}, err
}

func (w layersWorker) free() error {
	w.worker.Close()
	return nil
}

func (w layersWorker) run(ctx context.Context, a *answer) error {
	const side, samples, times, value = 1024, 8, 20, 1.0 / 64
	return w.worker.Do(ctx, func(s *torch.Scope) (err error) {
		x := s.Full(value, torch.Float32, samples, side/samples, side)
		weight := s.Transpose(s.Full(value, torch.Float32, side, side), 0, 1) // as weights lie that are not trained
		if s.Precision() == torch.BFloat16 {
			weight = s.To(weight, torch.BFloat16)
		}
		started := time.Now()
		s.NoGrad(func() {
			for range times {
				err = s.Nest(func(s *torch.Scope) error {
					if got := s.Narrow(s.Reshape(s.Linear(x, weight, nil), -1), 0, 0, 1).Item(); got != side*value*value {
						return fmt.Errorf("an element of the product is %g, want %g", got, side*value*value)
					}
					return nil
				})
				if err != nil {
					return
				}
			}
		})
		a.Values["per_second"] = times * 2 * side * side * side / time.Since(started).Seconds()
		return err
	})
}
