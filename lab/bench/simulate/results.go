package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// load reads the results; there are none yet when the file is not there.
func load(file string) (map[string]Result, error) {
	results := make(map[string]Result)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &results)
	}
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	return results, nil
}

func store(file string, results map[string]Result) error {
	raw, err := json.MarshalIndent(results, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(raw, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// writeTables replaces what stands between the marks of a document.
func writeTables(file, document string) error {
	results, err := load(file)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text := string(raw)
	for _, s := range simulations {
		begin, end := fmt.Sprintf("<!-- simulated %s: begin -->\n", s.name), fmt.Sprintf("<!-- simulated %s: end -->", s.name)
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		r, there := results[s.name]
		if !ok || !ended || !there {
			return fmt.Errorf("%s has no place %q ... %q, or %s no results of it: play it first", document, strings.TrimSpace(begin), end, file)
		}
		rows, err := tables[s.name](r.Result)
		if err != nil {
			return fmt.Errorf("results of %s: %w", s.name, err)
		}
		text = before + begin + table(rows) + fmt.Sprintf("\nPlayed on %d cores at a load of %s (1, 5 and 15 minutes).\n", r.Cores, r.Load) + end + after
	}
	return os.WriteFile(document, []byte(text), 0o644)
}

// table writes rows, of which the first has the titles.
func table(rows [][]string) string {
	var t strings.Builder
	for i, row := range rows {
		t.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			t.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return t.String()
}

// tables turns results into rows.
var tables = map[string]func(json.RawMessage) ([][]string, error){
	"idle": rowsOf([]string{"GPUs", "an epoch of 40 lanes", "trainer idle, epochs planned at the end of the one before", "queues planned as they fill"}, func(r Idle) []string {
		return []string{strconv.Itoa(r.GPUs), fmt.Sprintf("%.0f s", r.Epoch), percent(r.AtEnd), percent(r.Ahead)}
	}),
	"kills": rowsOf([]string{"killed before epoch", "records read again, a lane", "bytes", "seconds to the next batch, the slowest of the lanes", "since the kill", "processor seconds", "epochs of `features` kept"}, func(r Kill) []string {
		return []string{
			strconv.Itoa(r.Epoch), fmt.Sprintf("%.0f", r.Records), fmt.Sprintf("%.2f MB", r.Bytes/1e6), fmt.Sprintf("%.1f s", r.Seconds), fmt.Sprintf("%.1f s", r.Down), fmt.Sprintf("%.1f s", r.CPU),
			fmt.Sprintf("%.1f", r.Kept),
		}
	}),
	"reads": rowsOf([]string{"samples of a batch read at once", "batches loaded at once", "trainer waits", "pairs/s, of 600"}, func(r Reads) []string {
		return []string{strconv.Itoa(r.Workers), strconv.Itoa(r.Batches), percent(r.Waits), fmt.Sprintf("%.0f", r.Rate)}
	}),
	"bytes": rowsOf([]string{"topic", "bytes of a pair", "with positives", "how often"}, func(r Bytes) []string {
		often := map[bool]string{false: "once", true: "every epoch"}[r.Epoch]
		return []string{"`" + r.Topic + "`", fmt.Sprintf("%.0f", r.Without), fmt.Sprintf("%.0f", r.Positives), often}
	}),
	"plan": rowsOf([]string{"lanes x pairs, width, epochs", "what", "predicted", "measured", "error"}, func(r Foreseen) []string {
		return []string{
			fmt.Sprintf("%d x %d, d = %d, %d", r.Lanes, r.Pairs, r.Dim, r.Epochs), r.What, figure(r.Predicted), figure(r.Measured),
			fmt.Sprintf("%+.1f %%", 100*(r.Predicted/r.Measured-1)),
		}
	}),
	"ranks": rowsOf([]string{"ranks", "there and back", "counted, a rank and step, each way", "sent on the line, the most of all ranks", "received, the most", "seconds of a step, predicted", "measured"}, func(r Exchange) []string {
		row := []string{strconv.Itoa(r.Ranks), fmt.Sprintf("%.0f ms", 1e3*r.RoundTrip), megabytes(r.Counted), megabytes(r.Sent), megabytes(r.Received), fmt.Sprintf("%.3f", r.Predicted), fmt.Sprintf("%.3f", r.Seconds)}
		if r.Ranks > 1 && r.Seconds == 0 {
			row[3], row[4], row[6] = "-", "-", "-"
		}
		return row
	}),
	"overlap": rowsOf([]string{"ranks", "backward pass", "the gradient leaves", "seconds of a step, predicted", "measured"}, func(r Overlap) []string {
		leaves := map[bool]string{false: "behind it", true: "run by run beside it"}[r.Beside]
		return []string{strconv.Itoa(r.Ranks), fmt.Sprintf("%.3f s", r.Backward), leaves, fmt.Sprintf("%.3f", r.Predicted), fmt.Sprintf("%.3f", r.Seconds)}
	}),
}

func figure(n float64) string {
	if n >= 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3g", n)
}

func megabytes(n float64) string { return fmt.Sprintf("%.2f MB", n/1e6) }

func rowsOf[T any](titles []string, row func(T) []string) func(json.RawMessage) ([][]string, error) {
	return func(raw json.RawMessage) ([][]string, error) {
		var all []T
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		rows := [][]string{titles}
		for _, r := range all {
			rows = append(rows, row(r))
		}
		return slices.Clip(rows), nil
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Reads is a way to load images, and how long a trainer waits for them.
type Reads struct {
	Workers int     `json:"workers"` // samples of a batch whose images are read at once
	Batches int     `json:"batches"` // that are loaded at once
	Waits   float64 `json:"waits"`   // share of the trainer's time
	Rate    float64 `json:"rate"`    // pairs a second
}

// Reads of an image take this long: half of them, and all but one in a hundred. Steps take what 600 pairs/s leave.
const (
	medianRead   = 0.030
	slowRead     = 0.300
	readBatch    = 96
	readPairs    = 600.0
	readSteps    = 2000
	prepared     = 2    // batches that wait for a step, as in the trainer
	standardSlow = 2.33 // deviations to the slowest hundredth
)

// reads computes how long a trainer waits for images from a bucket, whose latencies are drawn from a log-normal
// distribution. Every sample has two images, its own and a positive. No clock is involved.
func reads(_ context.Context, s sizes) (any, error) {
	var out []Reads
	for _, r := range []Reads{{Workers: 2, Batches: 1}, {Workers: 2, Batches: 4}, {Workers: 16, Batches: 1}, {Workers: 16, Batches: 4}, {Workers: 96, Batches: 1}, {Workers: 96, Batches: 4}} {
		r.Waits, r.Rate = r.play()
		s.say("reads: %d samples of a batch at once, %d batches at once: %.0f %% of the time is waiting, %.0f pairs/s", r.Workers, r.Batches, 100*r.Waits, r.Rate)
		out = append(out, r)
	}
	return out, nil
}

// play returns the share of time that steps wait, and the rate.
func (r Reads) play() (waits, rate float64) {
	draw := rng.New(1, "latencies of reads")
	sigma := math.Log(slowRead/medianRead) / standardSlow
	latency := func() float64 { return medianRead * math.Exp(sigma*draw.NormFloat64()) }
	ready := make([]float64, readSteps) // when each batch is loaded
	ends := make([]float64, readSteps)  // of the steps
	free, idle := 0.0, 0.0
	for k := range readSteps {
		start := 0.0
		if k >= r.Batches {
			start = ready[k-r.Batches] // batches are handed on in order
		}
		if room := k - prepared - r.Batches; room >= 0 {
			start = max(start, ends[room])
		}
		workers := slices.Repeat([]float64{start}, r.Workers) // when each is free; every batch has its own
		for range readBatch {                                 // a worker reads both images of a sample
			first := slices.Index(workers, slices.Min(workers))
			workers[first] += latency() + latency()
			ready[k] = max(ready[k], workers[first])
		}
		if k > 0 {
			ready[k] = max(ready[k], ready[k-1])
		}
		idle += max(0, ready[k]-free)
		free = max(free, ready[k]) + readBatch/readPairs
		ends[k] = free
	}
	return idle / free, readSteps * readBatch / free
}
