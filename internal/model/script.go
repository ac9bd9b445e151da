package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/torch"
)

// ScriptOptions say what a TorchScript archive does not: the inputs of its methods.
type ScriptOptions struct {
	ImageSize  int // pixels on a side, cropped and normalised as for CLIP
	TextTokens int // length of the ids, filled up with zeros
	Words      ScriptWords
	BatchSize  int // 0: DefaultBatchSize
}

// ScriptWords is the tokenizer of a TorchScript archive: token.CLIP or token.WordPiece.
type ScriptWords interface {
	// Encode returns at most limit ids of a text, its beginning and its end included.
	Encode(text string, limit int) []int32
	// Digest returns an identifier of the vocabulary.
	Digest() string
}

// NewScriptEncoder makes an encoder of a TorchScript archive with methods encode_image (float32 [n, 3, size, size]) and
// encode_text (int64 [n, length]). Both return [n, dim]. The archive is a program: load only one that you trust. The
// archive decides whether its rows are independent (invariant 4 of the package).
func NewScriptEncoder(ctx context.Context, w *torch.Worker, path string, o ScriptOptions) (*Encoder, error) {
	archive, err := fileFingerprint(path)
	if err != nil {
		return nil, err
	}
	name, err := fingerprint(ctx, w, nil, archive, fmt.Sprintf("%d pixels, %d tokens", o.ImageSize, o.TextTokens), o.Words.Digest())
	if err != nil {
		return nil, err
	}
	var script *torch.Script
	if err := w.Do(ctx, func(s *torch.Scope) (err error) {
		script, err = s.LoadScript(path)
		return err
	}); err != nil {
		return nil, err
	}
	t := towers{
		image: func(s *torch.Scope, pixels *torch.Tensor) *torch.Tensor {
			return s.Call(script, "encode_image", pixels)
		},
		text: func(s *torch.Scope, ids, _ *torch.Tensor) *torch.Tensor { return s.Call(script, "encode_text", ids) },
		tokens: func(caption string) []int32 {
			return o.Words.Encode(caption, o.TextTokens)
		},
		length: o.TextTokens,
		free:   script.Free,
	}
	size := imaging.Preprocess{Size: o.ImageSize, Mode: imaging.CenterCrop}
	e, err := newEncoder(ctx, w, t, size, name, o.BatchSize)
	if err != nil {
		script.Free()
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return e, nil
}

// fileFingerprint returns an identifier of a file's bytes.
func fileFingerprint(path string) (string, error) {
	archive, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("opening a TorchScript archive: %w", err)
	}
	sum := sha256.Sum256(archive)
	return hex.EncodeToString(sum[:16]), nil
}
