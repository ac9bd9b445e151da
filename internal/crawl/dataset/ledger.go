package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Ledger is a producer's view of the topic "pairs", with notes of the progress in every source.
type Ledger interface {
	// Sources returns the notes, by URI.
	Sources(ctx context.Context) (map[string]SourceNote, error)
	// Note writes notes. It returns when they and all earlier messages are acknowledged.
	Note(ctx context.Context, notes []SourceNote) error
	// Publish sends a message, in the background.
	Publish(ctx context.Context, m Message) error
	// Ends returns the end of every lane.
	Ends(ctx context.Context) ([]int64, error)
	// Topic returns the id of the topic, "" if there are no ids. A recreated topic has another id.
	Topic(ctx context.Context) (string, error)
	// Behind calls each with the values after these offsets of the lanes.
	Behind(ctx context.Context, from []int64, each func(value []byte)) error
	// Ended returns the final seal of every lane that ends with one, by lane.
	Ended(ctx context.Context) (map[int]*schemas.Seal, error)
}

// SourceNote is the progress of publishing a tar.
//
// A source gives its messages in a fixed order. The first Messages of them are in the log, or held out. All others lie
// after Ends, if they are in the log. So a producer that resumes reads the log after Ends, and publishes the messages
// that are missing there.
type SourceNote struct {
	URI      string  `json:"uri"`
	Size     int64   `json:"size"`
	Version  string  `json:"version,omitempty"` // changes whenever the source does; empty: unknown
	Messages int64   `json:"messages"`
	Digest   string  `json:"digest"` // of these messages
	Ends     []int64 `json:"ends,omitempty"`
	Done     bool    `json:"done,omitempty"`   // there are no further messages
	Before   []int64 `json:"before,omitempty"` // done: all messages lie before these offsets of the lanes
	Topic    string  `json:"topic,omitempty"`  // id of the topic that has them; empty: unknown
	HeldOut  int     `json:"held_out,omitempty"`
}

// sourceState is a source that is being read. Its Messages and Digest cover the messages before the open block.
type sourceState struct {
	SourceNote
	tar  shard.Tar
	lost *shard.Problem // instead: the problem that makes it unreadable
	seen int64          // bytes read, for the progress

	read    int64 // messages so far
	digest  hash.Hash
	skip    int64      // messages published before
	want    string     // their digest
	inBlock bool       // the open block has messages of it
	final   SourceNote // its last note, if it is fully published
	before  int        // published earlier, for the summary
	whole   bool       // fully published: it is not read
}

func newSource(tar shard.Tar) *sourceState {
	s := &sourceState{SourceNote: SourceNote{URI: tar.URI, Size: tar.Size, Version: tar.Version}, tar: tar}
	s.forget()
	return s
}

// forget restarts the source.
func (s *sourceState) forget() {
	s.read, s.skip, s.want, s.seen, s.digest, s.Messages, s.Digest = 0, 0, "", 0, sha256.New(), 0, ""
}

// take counts a message. It reports whether the message was published before.
func (s *sourceState) take(value []byte) (published bool, err error) {
	s.digest.Write(binary.AppendUvarint(nil, uint64(len(value))))
	s.digest.Write(value)
	s.read++
	if s.read == s.skip && s.sum() != s.want {
		return true, errChanged
	}
	return s.read <= s.skip, nil
}

func (s *sourceState) sum() string { return hex.EncodeToString(s.digest.Sum(nil)[:16]) }

// check refuses a source that ends before its published messages do.
func (s *sourceState) check() error {
	if s.read < s.skip {
		return errChanged
	}
	return nil
}

// shuffleSources shuffles the sources. Adding or removing a source does not change the order of the others.
func shuffleSources(sources []*sourceState, seed uint64) {
	key := func(s *sourceState) string {
		h := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), s.URI...))
		return string(h[:])
	}
	slices.SortFunc(sources, func(a, b *sourceState) int { return strings.Compare(key(a), key(b)) })
}

// interleave takes the tars of the paths in turns. In each turn it takes as many tars of a path as the path's weight,
// as long as it has any. The order within a path stays.
func interleave(tars []shard.Tar, weights []int) []shard.Tar {
	if weights == nil {
		return tars
	}
	left := make([][]shard.Tar, len(weights))
	for _, t := range tars {
		left[t.Place] = append(left[t.Place], t)
	}
	out := make([]shard.Tar, 0, len(tars))
	for len(out) < len(tars) {
		for place, weight := range weights {
			n := min(weight, len(left[place]))
			out, left[place] = append(out, left[place][:n]...), left[place][n:]
		}
	}
	return out
}
