package weights

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/decision"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Weights are weights that the trainer has published.
type Weights struct {
	Fingerprint string `json:"fingerprint"`
	Step        int64  `json:"step"`   // training steps that made them
	File        string `json:"file"`   // informative: where the trainer wrote them
	SHA256      string `json:"sha256"` // of the file
}

// Choice is the weights that a lane uses from a position on.
type Choice struct {
	Lane        int    `json:"lane"`
	Seq         int64  `json:"seq"` // of the first embedding, or refusal, made with them
	Fingerprint string `json:"fingerprint"`
}

// The kinds of notes. A key is the kind and a unique suffix.
const (
	announced = "weights/announced/"
	retired   = "weights/retired/"
	chosen    = "weights/chosen/"
	wanted    = "weights/wanted/"
)

type laneSeq struct {
	lane int
	seq  int64
}

// Notes are the notes of a log at the time of reading.
type Notes struct {
	live    []Weights // announced and not retired, the latest last
	known   map[string]Weights
	retired map[string]bool
	choices map[laneSeq]string
	wanted  map[int64][]string // fingerprints, by step
}

// Read reads the notes of a log.
func Read(ctx context.Context, log *stream.Log) (*Notes, error) {
	n := &Notes{known: make(map[string]Weights), retired: make(map[string]bool), choices: make(map[laneSeq]string), wanted: make(map[int64][]string)}
	for rec, err := range log.Records(ctx, schemas.Control, 0, stream.Position{}, -1) {
		if err == nil {
			err = n.add(string(rec.Key), rec.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the notes about weights: %w", err)
		}
	}
	return n, nil
}

// add takes the next note.
func (n *Notes) add(key string, value []byte) error {
	kind := key[:strings.LastIndexByte(key, '/')+1]
	if kind == chosen {
		var c Choice
		err := json.Unmarshal(value, &c)
		if at := (laneSeq{c.Lane, c.Seq}); err == nil && n.choices[at] == "" && !n.retired[c.Fingerprint] {
			n.choices[at] = c.Fingerprint
		}
		return err
	}
	if kind != announced && kind != retired && kind != wanted {
		return nil
	}
	var w Weights
	if err := json.Unmarshal(value, &w); err != nil {
		return err
	}
	switch kind {
	case announced:
		n.forget(w.Fingerprint)
		n.live, n.known[w.Fingerprint] = append(n.live, w), w
		delete(n.retired, w.Fingerprint)
	case retired:
		n.forget(w.Fingerprint)
		n.retired[w.Fingerprint] = true
	case wanted:
		if !slices.Contains(n.wanted[w.Step], w.Fingerprint) {
			n.wanted[w.Step] = append(n.wanted[w.Step], w.Fingerprint)
		}
	}
	return nil
}

func (n *Notes) forget(fingerprint string) {
	n.live = slices.DeleteFunc(n.live, func(w Weights) bool { return w.Fingerprint == fingerprint })
}

// Newest returns the most recently announced weights.
func (n *Notes) Newest() (Weights, bool) {
	if len(n.live) == 0 {
		return Weights{}, false
	}
	return n.live[len(n.live)-1], true
}

// Chosen returns the weights that count for a position, empty if there are none yet.
func (n *Notes) Chosen(lane int, seq int64) string { return n.choices[laneSeq{lane, seq}] }

// Choices returns all choices that count, by lane and position.
func (n *Notes) Choices() []Choice {
	var all []Choice
	for at, fingerprint := range n.choices {
		all = append(all, Choice{at.lane, at.seq, fingerprint})
	}
	slices.SortFunc(all, func(a, b Choice) int { return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Seq, b.Seq)) })
	return all
}

// Wanted returns the fingerprints that the trainer must publish regardless of CHECKPOINT_EVERY, by step.
func (n *Notes) Wanted() map[int64][]string { return n.wanted }

// Used returns the weights chosen anywhere, by fingerprint. Weights that were never announced have only a fingerprint.
func (n *Notes) Used() []Weights {
	used := make(map[string]Weights)
	for _, fingerprint := range n.choices {
		w := n.known[fingerprint]
		w.Fingerprint = fingerprint
		used[fingerprint] = w
	}
	var all []Weights
	for _, w := range used {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b Weights) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	return all
}

// ErrNone means that the trainer has announced no weights yet.
var ErrNone = errors.New("the trainer has published no weights yet")

// Choose returns the weights that count for a position. If there are none, it proposes the newest.
func Choose(ctx context.Context, log *stream.Log, lane int, seq int64) (string, error) {
	for {
		n, err := Read(ctx, log)
		if err != nil {
			return "", err
		}
		if c := n.Chosen(lane, seq); c != "" {
			return c, nil
		}
		w, ok := n.Newest()
		if !ok {
			return "", ErrNone
		}
		if err := Propose(ctx, log, Choice{lane, seq, w.Fingerprint}); err != nil {
			return "", err
		}
	}
}

// Propose notes choices. Choices for decided positions change nothing.
func Propose(ctx context.Context, log *stream.Log, choices ...Choice) error {
	return decision.Write(ctx, log, chosen, choices...)
}

// Want notes weights that the trainer must publish at their steps, because an encoder has chosen them and their files
// are gone.
func Want(ctx context.Context, log *stream.Log, weights ...Weights) error {
	return decision.Write(ctx, log, wanted, brief(weights)...)
}

// Announce notes that weights can be chosen. Their file must be there.
func Announce(ctx context.Context, log *stream.Log, w Weights) error {
	return decision.Write(ctx, log, announced, w)
}

// kept is the number of announced weights that can be chosen at any time.
const kept = 2

// Retire notes that all but the latest weights can no longer be chosen. It returns the fingerprints of the weights
// whose files must stay.
func Retire(ctx context.Context, log *stream.Log) ([]string, error) {
	n, err := Read(ctx, log)
	if err != nil {
		return nil, err
	}
	if old := brief(n.live[:max(0, len(n.live)-kept)]); len(old) > 0 {
		if err := decision.Write(ctx, log, retired, old...); err != nil {
			return nil, err
		}
		if n, err = Read(ctx, log); err != nil { // choices before these notes are known only now
			return nil, err
		}
	}
	var stay []string
	for _, w := range slices.Concat(n.live, n.Used()) {
		if !slices.Contains(stay, w.Fingerprint) {
			stay = append(stay, w.Fingerprint)
		}
	}
	return stay, nil
}

// brief returns the part of weights that a note needs.
func brief(all []Weights) (out []Weights) {
	for _, w := range all {
		out = append(out, Weights{Fingerprint: w.Fingerprint, Step: w.Step})
	}
	return out
}

// Setting is the value of ENCODER_CHECKPOINT that selects the trainer's weights.
const Setting = "@latest"

const ending = ".safetensors"

// Folder returns the folder of published weights, in the folder of checkpoints.
func Folder(checkpoints string) string { return filepath.Join(checkpoints, "published") }

// File returns the path of published weights.
func File(checkpoints, fingerprint string) string {
	return filepath.Join(Folder(checkpoints), fingerprint+ending)
}

// published matches the names of files that the trainer writes into the folder, and of the leftovers of interrupted
// writes.
var published = regexp.MustCompile(`^(?:([0-9a-f]{32})\.safetensors|\.[0-9a-f]{32}\.safetensors-\d+\.tmp)$`)

// Prune removes all published weights except those in stay, and the leftovers of interrupted writes. Files with other
// names are not the trainer's.
func Prune(checkpoints string, stay []string) error {
	entries, err := os.ReadDir(Folder(checkpoints))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if m := published.FindStringSubmatch(e.Name()); m != nil && !slices.Contains(stay, m[1]) {
			err = errors.Join(err, os.Remove(filepath.Join(Folder(checkpoints), e.Name())))
		}
	}
	return err
}

// Hash returns the SHA-256 of a file.
func Hash(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Copy copies published weights into another folder of checkpoints. It checks that the file is the announced one.
func Copy(from, to string, w Weights) error {
	path := File(from, w.Fingerprint)
	sum, err := Hash(path)
	if err != nil {
		return err
	}
	if sum != w.SHA256 && w.SHA256 != "" {
		return fmt.Errorf("%s has the SHA-256 %s, want %s: it is not the file that the trainer has published", path, sum, w.SHA256)
	}
	if err := os.MkdirAll(Folder(to), 0o755); err != nil {
		return err
	}
	return atomicfile.Copy(path, File(to, w.Fingerprint), 0o644)
}
