package main

import (
	"context"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/rng"
)

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

// reads computes how long a trainer waits for images from a bucket, whose latencies are drawn from a log-normal distribution.
// Every sample has two images, its own and a positive. No clock is involved.
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
