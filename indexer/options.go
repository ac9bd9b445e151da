package indexer

import (
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/schemas"
)

// The values of Options.Modality, and what a search looks for.
const (
	Image = "image"
	Text  = "text"
)

// Options decide what a group is and what is computed for it. The defaults are those of GPN-S.
type Options struct {
	GroupSize     int     // pairs of a full group
	K             int     // V2T neighbours
	K1, K2        int     // SE = V2V_K1 n T2V_K2
	KeepSameImage bool    // let V2V and SE find other pairs of the same image
	Clusters      int     // K of k-means
	Iterations    int     // of k-means, at most
	Modality      string  // what is clustered: Image or Text
	P             float64 // a noun is an object of an image when it is in more than this share of the neighbour texts
	MinCount      int     // a noun is one of the group's when more captions than this have it
	Seed          uint64
	Threads       int // 0: as many as there are processors
}

// DefaultOptions are the settings of the GPN-S paper.
func DefaultOptions() Options {
	return Options{
		GroupSize: 5_000_000, K: 10, K1: 5, K2: 500, Clusters: 1000, Iterations: 20, Modality: Image, P: 0.3, MinCount: 10,
	}
}

// maxGroupSize keeps positions in int32 columns, and the reservation for vectors within the address space.
const maxGroupSize = 100_000_000

// Validate names every option that is out of range.
func (o Options) Validate() error {
	var problems []error
	within := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s is %d, want %d..%d", name, value, low, high))
		}
	}
	within("group size", o.GroupSize, 1, maxGroupSize)
	within("k", o.K, 1, 1000)
	within("k1", o.K1, 1, 1000)
	within("k2", o.K2, 1, maxGroupSize)
	within("clusters", o.Clusters, 1, 1_000_000)
	within("iterations", o.Iterations, 1, 10_000)
	within("min count", o.MinCount, 0, math.MaxInt32)
	within("threads", o.Threads, 0, 4096)
	if o.Modality != Image && o.Modality != Text {
		problems = append(problems, fmt.Errorf("modality is %q, want %q or %q", o.Modality, Image, Text))
	}
	if !(o.P >= 0 && o.P <= 1) {
		problems = append(problems, fmt.Errorf("p is %g, want 0..1", o.P))
	}
	return errors.Join(problems...)
}

// NounFinder tells the distinct nouns of a caption, lower-cased; internal/nouns does. It must always answer the same.
type NounFinder interface {
	Nouns(caption string) []string
}

// Reason says what closed a group.
type Reason string

// The reasons to close a group, as the manifest names them.
const (
	ByCount Reason = "count"
	BySeal  Reason = "seal"
	ByModel Reason = "model"
)

// Group is a closed group: its chunks in order, and the manifest that follows them.
type Group struct {
	Chunks   []*schemas.NeighborChunk
	Manifest *schemas.Group
}
