package trainer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/model/safetensors"
)

// ErrTorn marks a checkpoint whose bytes are not those that were written.
var ErrTorn = errors.New("checkpoint is damaged")

const (
	checkpointFormat  = "checkpoint-%012d.safetensors" // by step, so that the order of names is that of steps
	checkpointPattern = "checkpoint-*.safetensors"
	temporaryPattern  = ".checkpoint-*.tmp" // as package atomicfile names them
	temporaryBest     = ".best.safetensors-*.tmp"
	keptCheckpoints   = 2
	metadataDigest    = "pairstream.sha256"
	metadataStep      = "pairstream.step"
	metadataVersion   = "pairstream.version"  // of the program that wrote it; absent: an earlier one
	metadataBatches   = "pairstream.batches"  // of the steps; absent: one each
	metadataFollowed  = "pairstream.followed" // the momentum encoder has followed the weights for the next step
	metadataPositions = "pairstream.positions"
)

// writeSealed writes a safetensors file that carries a digest of its content. The file appears under its name complete
// or not at all. It is on the disk when the function returns.
func writeSealed(path string, tensors []safetensors.NamedTensor, metadata map[string]string) error {
	if err := finiteAll(tensors); err != nil {
		return fmt.Errorf("writing checkpoint %s: %w; go back to an earlier checkpoint, with a lower learning rate", path, err)
	}
	sealed := maps.Clone(metadata)
	sealed[metadataDigest] = digest(tensors, metadata)
	if err := safetensors.WriteFile(path, tensors, sealed); err != nil {
		return fmt.Errorf("writing checkpoint: %w", err)
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openSealed reads a file that writeSealed wrote and checks its digest.
func openSealed(path string) (*safetensors.File, error) {
	f, err := safetensors.Open(path)
	if errors.Is(err, safetensors.ErrFormat) {
		return nil, fmt.Errorf("opening checkpoint: %w: %w", ErrTorn, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening checkpoint: %w", err)
	}
	want, ok := f.Metadata[metadataDigest]
	if !ok {
		return nil, fmt.Errorf("opening checkpoint %s: no %s in its metadata: a file of weights, not a checkpoint", path, metadataDigest)
	}
	metadata := maps.Clone(f.Metadata)
	delete(metadata, metadataDigest)
	tensors := make([]safetensors.NamedTensor, 0, len(f.Names()))
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: t})
	}
	if got := digest(tensors, metadata); got != want {
		return nil, fmt.Errorf("opening checkpoint %s: %w: SHA-256 is %s, want %s", path, ErrTorn, got, want)
	}
	if err := finiteAll(tensors); err != nil {
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	return f, nil
}

// finiteAll refuses a state with numbers that are none: no step gets better with them.
func finiteAll(tensors []safetensors.NamedTensor) error {
	for _, t := range tensors {
		if i, ok := t.Finite(); !ok {
			return fmt.Errorf("tensor %s is broken, value %d is %w", t.Name, i, ErrNotFinite)
		}
	}
	return nil
}

// digest returns the SHA-256 over metadata and tensors in order of name. The length of every part precedes it.
func digest(tensors []safetensors.NamedTensor, metadata map[string]string) string {
	h := sha256.New()
	put := func(part []byte) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		put([]byte(key))
		put([]byte(metadata[key]))
	}
	sorted := slices.Clone(tensors)
	slices.SortFunc(sorted, func(a, b safetensors.NamedTensor) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range sorted {
		put([]byte(t.Name))
		put([]byte(t.DType))
		put(fmt.Append(nil, t.Shape))
		put(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkpointsIn lists the files of a folder whose name fits a pattern. The last name comes first, which is the newest
// checkpoint. A missing folder has none.
func checkpointsIn(folder, pattern string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing checkpoints: %w", err)
	}
	var paths []string
	for _, e := range entries {
		fits, err := filepath.Match(pattern, e.Name())
		if err != nil {
			return nil, fmt.Errorf("listing checkpoints: %w", err)
		}
		if fits {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(paths)
	slices.Reverse(paths)
	return paths, nil
}

// prune removes all but the newest checkpoints of a folder and those of steps that stay divides, and what interrupted
// writes left behind.
func prune(folder string, stay int64) error {
	paths, err := checkpointsIn(folder, checkpointPattern)
	if err != nil {
		return err
	}
	var stale []string
	for _, pattern := range []string{temporaryPattern, temporaryBest} {
		found, err := checkpointsIn(folder, pattern)
		if err != nil {
			return err
		}
		stale = append(stale, found...)
	}
	var steps []int64 // the newest comes first
	byStep := make(map[int64]string)
	for _, path := range paths {
		step, ok := CheckpointStep(filepath.Base(path))
		if !ok {
			stale = append(stale, path)
			continue
		}
		steps, byStep[step] = append(steps, step), path
	}
	for _, step := range Superseded(steps, stay) {
		stale = append(stale, byStep[step])
	}
	var errs []error
	for _, path := range stale {
		errs = append(errs, removeIfThere(path))
	}
	return errors.Join(errs...)
}

// IsTemporary reports whether an interrupted write of a checkpoint has left a file of this name.
func IsTemporary(name string) bool {
	for _, pattern := range []string{temporaryPattern, temporaryBest} {
		if fits, err := filepath.Match(pattern, name); fits && err == nil {
			return true
		}
	}
	return false
}

// Superseded returns those of some steps whose checkpoints need not stay: all but the last two and those that stay
// divides.
func Superseded(steps []int64, stay int64) (stale []int64) {
	sorted := slices.Clone(steps)
	slices.Sort(sorted)
	for _, step := range sorted[:max(0, len(sorted)-keptCheckpoints)] {
		if stay == 0 || step%stay != 0 {
			stale = append(stale, step)
		}
	}
	return stale
}

// LatestCheckpoint returns the newest checkpoint of a folder that is whole. bad reports the newer ones that are not
// whole. The path is empty when there is no checkpoint at all.
func LatestCheckpoint(folder string) (path string, bad []error, err error) {
	paths, err := checkpointsIn(folder, checkpointPattern)
	if err != nil {
		return "", nil, err
	}
	for _, path := range paths {
		if _, err := openSealed(path); err != nil {
			bad = append(bad, err)
			continue
		}
		return path, bad, nil
	}
	return "", bad, nil
}

// StoredCheckpoint is a checkpoint in a folder.
type StoredCheckpoint struct {
	Path string
	Step int64
}

// Checkpoints lists the checkpoints of a folder, whole or not. The newest one comes first. A missing folder has none.
func Checkpoints(folder string) ([]StoredCheckpoint, error) {
	paths, err := checkpointsIn(folder, checkpointPattern)
	if err != nil {
		return nil, err
	}
	var found []StoredCheckpoint
	for _, path := range paths {
		if step, ok := CheckpointStep(filepath.Base(path)); ok {
			found = append(found, StoredCheckpoint{path, step})
		}
	}
	return found, nil
}

// CheckpointStep returns the step of a checkpoint by the name of its file. ok says whether it is such a name.
func CheckpointStep(name string) (step int64, ok bool) {
	_, err := fmt.Sscanf(name, checkpointFormat, &step)
	return step, err == nil && name == CheckpointName(step)
}

// CheckpointName returns the name of the file of a step's checkpoint.
func CheckpointName(step int64) string { return fmt.Sprintf(checkpointFormat, step) }

// Head is the part of a checkpoint before its tensors.
type Head struct {
	Step      int64
	Digest    string // of everything
	Positions json.RawMessage
}

// ReadHead reads the beginning of a checkpoint, and no more than that.
func ReadHead(r io.Reader) (Head, error) {
	metadata, err := safetensors.ReadMetadata(r)
	if errors.Is(err, safetensors.ErrFormat) {
		err = fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if err != nil {
		return Head{}, fmt.Errorf("reading a checkpoint: %w", err)
	}
	h := Head{Digest: metadata[metadataDigest], Positions: json.RawMessage(metadata[metadataPositions])}
	if h.Step, err = strconv.ParseInt(metadata[metadataStep], 10, 64); err != nil || h.Digest == "" {
		return Head{}, fmt.Errorf("reading a checkpoint: %w: it has no step or no digest", ErrTorn)
	}
	return h, nil
}

// CheckFile reads a whole checkpoint and checks its digest.
func CheckFile(path string) error {
	_, err := openSealed(path)
	return err
}

// modelFacts returns the fixed facts of a model that its weights file states.
type modelFacts interface {
	FingerprintOf(tensors []safetensors.NamedTensor) (string, error)
	Metadata() (map[string]string, error)
}

// SaveWeights writes the weights alone, without what training needs besides, to the file that path names for their
// fingerprint. A file that is there has these weights already, and stays. It makes the folder if need be.
func (s *Snapshot) SaveWeights(path func(fingerprint string) string) (fingerprint string, err error) {
	weights := s.tensors[:s.weights]
	if fingerprint, err = s.model.FingerprintOf(weights); err != nil {
		return "", err
	}
	to := path(fingerprint)
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return fingerprint, err
	}
	metadata, err := s.model.Metadata()
	if err != nil {
		return "", fmt.Errorf("saving weights at step %d: %w", s.step, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", fmt.Errorf("saving weights: %w", err)
	}
	if err := safetensors.WriteFile(to, weights, metadata); err != nil {
		return "", fmt.Errorf("saving weights: %w", err)
	}
	return fingerprint, nil
}
