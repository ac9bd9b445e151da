package trainer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/safetensors"
)

// SaveWeights writes the weights alone, without what training needs besides, to the file that path names for their
// fingerprint. A file that is there has these weights already, and stays. It makes the folder if need be.
func (t *Trainer) SaveWeights(ctx context.Context, path func(fingerprint string) string) (fingerprint string, err error) {
	if fingerprint, err = t.model.Fingerprint(ctx); err != nil {
		return "", err
	}
	to := path(fingerprint)
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return fingerprint, err
	}
	tensors, err := t.model.Export(ctx)
	if err != nil {
		return "", fmt.Errorf("saving weights at step %d: %w", t.step, err)
	}
	metadata, err := t.model.Metadata()
	if err != nil {
		return "", fmt.Errorf("saving weights at step %d: %w", t.step, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", fmt.Errorf("saving weights: %w", err)
	}
	if err := safetensors.WriteFile(to, tensors, metadata); err != nil {
		return "", fmt.Errorf("saving weights: %w", err)
	}
	return fingerprint, nil
}
