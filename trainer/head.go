package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/pairstream/pairstream/internal/safetensors"
)

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

// Head is what a checkpoint says before its tensors.
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
