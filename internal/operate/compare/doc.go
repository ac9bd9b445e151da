// Package compare shows runs side by side.
//
// A [Recorder] reads the mini-batches and reports of a run and returns its [Course]: the account of its pairs, Con-D's
// verdicts, losses, evaluations, and curves with few points. The manifest of a run contains the course. [Of] compares
// runs by settings, models, digests and courses.
//
// The same records give the same course. Some reports have times and rates, in which two equal runs may differ. One
// goroutine at a time may use a Recorder.
package compare
