package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/dotproduct"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/knn/cpu"
	"github.com/pairstream/pairstream/internal/model"
)

// Limit is what the machine would let a row reach that did nothing but its largest part, as it was measured in the same run.
type Limit struct {
	Value float64 `json:"value"` // in the row's unit
	Of    string  `json:"of"`
	Share float64 `json:"share"` // of the limit that the row reached
}

// limited notes a limit of the row's figure.
func (r *Result) limited(value float64, of string) {
	share := value / r.Ours.Value
	if strings.HasSuffix(r.Unit, "/s") { // more is better
		share = 1 / share
	}
	r.Limit = &Limit{value, of, share}
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
	"group":      integerLimit("products of V2V, by symmetry half, and of V2T", func(n float64) float64 { return 1.5 * n * n }),
	"kmeans":     integerLimit("products of all rounds", func(n float64) float64 { return n * 1000 * kmeansRounds }),
	"walk":       integerLimit("products of images and texts", func(n float64) float64 { return n * n }),
	"walk-large": integerLimit("products of images and texts", func(n float64) float64 { return n * n }),
	"step-tiny":  productLimit("tiny", func(c model.Config) float64 { return c.StepOperations(stepTokens) }),
	"step-small": productLimit("small", func(c model.Config) float64 { return c.StepOperations(stepTokens) }),
	"encode":     productLimit("small", func(c model.Config) float64 { return c.ImageOperations() + c.TextOperations(encodeTokens) }),
	"decode-128": entropyLimit,
	"decode-224": entropyLimit,
	fetchRowName: func(_ context.Context, _ *bench, r *Result) error {
		r.limited(r.Extra["bare"], "a client that throws the bodies away")
		return nil
	},
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
		r.limited(products(limitRows[r.Row])*benchDim/rate, fmt.Sprintf("%s, %.0f billion of 16-bit integers a second", of, rate/1e9))
		return nil
	}
}

// productLimit is the speed of a model's float32 products at that of one large product.
func productLimit(preset string, operations func(model.Config) float64) func(context.Context, *bench, *Result) error {
	return func(ctx context.Context, b *bench, r *Result) error {
		c, err := model.Preset(preset, stepVocabulary(preset))
		if err != nil {
			return err
		}
		answers, err := b.alone(ctx, "products", job{Folder: b.folder, Options: map[string]float64{"side": 1024}}, 1)
		if err != nil {
			return err
		}
		rate := figure(answers, func(a answer) float64 { return a.Values["per_second"] }).Value
		r.limited(rate/operations(c), fmt.Sprintf("the model's products, %.0f GFLOP/s of one of 1,024 × 1,024", rate/1e9))
		return nil
	}
}

// entropyLimit is the time of libjpeg-turbo for an eighth of the pixels of each side. Nearly all of it goes to Huffman codes.
func entropyLimit(ctx context.Context, b *bench, r *Result) error {
	const n = 32
	j := job{Folder: b.folder, Options: map[string]float64{"images": n, "size": 1}}
	if _, err := writePhotos(j, n); err != nil {
		return err
	}
	one := *b
	one.threads = 1
	answers, err := one.alone(ctx, "entropy", j, 1)
	if err != nil {
		return err
	}
	r.limited(figure(answers, seconds).Value*1000/n, "the Huffman codes, by decoding at an eighth of the size")
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

// integersWorker multiplies rows of 16-bit integers that stay in the cache, on every thread.
type integersWorker struct{ threads int }

func newIntegersWorker(_ context.Context, j job) (worker, error) {
	return integersWorker{j.Threads}, nil
}

func (w integersWorker) do(_ context.Context, command string, a *answer) error {
	const side, times = 6 * dotproduct.BlockColumns, 2000
	switch command {
	case "check":
		return nil
	case "run":
	default:
		return unknown(command)
	}
	m := dotproduct.NewMatrix(side, benchDim)
	for i := range side {
		m.Row(i)[i%benchDim] = 1
	}
	f := dotproduct.NewFixed(m)
	panels := dotproduct.NewPanels(f)
	started := time.Now()
	var group sync.WaitGroup
	for range w.threads {
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
	a.Values["per_second"] = float64(w.threads) * times * side * side * benchDim / time.Since(started).Seconds()
	return nil
}

// scanned measures how long scans of codes take: of those of centroids, which stay in the cache, and of rows of lists, which lie
// one after another in memory.
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
