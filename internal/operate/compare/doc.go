// Package compare shows runs side by side.
//
// A [Recorder] reads the mini-batches and reports of a run and makes its [Course]: what came of its pairs, what Con-D
// found, losses, evaluations, and curves with few points. The manifest of a run keeps it. [Of] compares runs by their
// settings, models, digests and courses.
//
// The same records give the same course. But times and rates are in some reports, so two equal runs may differ there.
// A Recorder is for one goroutine at a time.
package compare
