// Package scope records which closed groups a group asks for neighbours, if it may ask those of all lanes. The set of
// other lanes' groups that are closed when a group closes is chance, so owners agree on it (package
// internal/log/decision).
//
//  1. A place is a group, with the greatest number of others that it asks.
//  2. A note names segments with their digests. A replay waits for those of the same groups. A group asks only
//     segments that were complete when noted, so no two groups wait for one another.
package scope

import (
	"cmp"
	"slices"

	"github.com/pairstream/pairstream/internal/log/decision"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
)

// Place is a group that asks others.
type Place struct {
	Lane  int   `json:"lane"`
	Group int64 `json:"group"`
	Most  int   `json:"most"` // others that it may ask
}

// Choice is the list of segments that a group asks, in order.
type Choice struct {
	Place
	Segments []store.Name `json:"segments"`
}

// Equal reports whether two choices are the same.
func (c Choice) Equal(d Choice) bool {
	return c.Place == d.Place && slices.Equal(c.Segments, d.Segments)
}

// Notes reads and writes the decisions recorded in a log.
var Notes = decision.Kind[Place, Choice]{
	Prefix: "segments/asked/", About: "notes about groups that ask others", Place: func(c Choice) Place { return c.Place },
	Compare: func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Most, b.Most))
	},
}
