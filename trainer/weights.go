package trainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/safetensors"
)

// modelFacts is what a weights file needs to know of a model besides its weights. It does not change in training.
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
