package model

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Names of an encoder's extra files. The words are CLIP's merges, a WordPiece vocabulary or a model of SentencePiece.
const (
	encoderKey = "pairstream.encoder"
	wordsKey   = "pairstream.words"
)

// insideScript describes the inputs of a TorchScript encoder of `export-encoder`.
type insideScript struct {
	ImageSize  int        `json:"image_size"`
	Resize     string     `json:"resize"` // crop or squash
	Mean       [3]float32 `json:"mean"`
	Std        [3]float32 `json:"std"`
	TextTokens int        `json:"text_tokens"`
	Tokenizer  string     `json:"tokenizer"` // clip, wordpiece or siglip

	words []byte
}

// scriptInside reads an archive's extra files. It returns nil for an archive without them.
func scriptInside(path string) (*insideScript, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("opening a TorchScript archive: %w", err)
	}
	defer archive.Close()
	text, err := extraFile(archive, encoderKey)
	if errors.Is(err, errNoExtra) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &insideScript{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decoding extra file %s: %w", encoderKey, err)
	}
	if s.words, err = extraFile(archive, wordsKey); err != nil {
		return nil, err
	}
	return s, checkSizes([]field{
		{"image_size", s.ImageSize, 1, 1 << 13},
		{"text_tokens", s.TextTokens, 2, maxSize},
	}, nil)
}

func (s *insideScript) open(ctx context.Context, w *torch.Worker, path string, o EncoderOptions) (*Encoder, error) {
	refused := func(err error) (*Encoder, error) { return nil, fmt.Errorf("loading %s: %w", path, err) }
	if o.ImageSize > 0 && o.ImageSize != s.ImageSize {
		return refused(fmt.Errorf("its images are of %d pixels, but the image size that is set is %d: leave it out", s.ImageSize, o.ImageSize))
	}
	if o.VocabPath != "" {
		return refused(errors.New("it has its words inside: name no vocabulary"))
	}
	words, err := s.tokenizer()
	if err != nil {
		return refused(err)
	}
	pre := imaging.Preprocess{Size: s.ImageSize, Mode: imaging.CenterCrop}
	switch s.Resize {
	case "crop":
	case "squash":
		pre.Mode = imaging.Squash
	default:
		return refused(fmt.Errorf("resize is %q in extra file %s, want crop or squash", s.Resize, encoderKey))
	}
	if err := pre.Normalize(s.Mean, s.Std); err != nil {
		return refused(fmt.Errorf("extra file %s: %w", encoderKey, err))
	}
	return NewScriptEncoder(ctx, w, path, ScriptOptions{
		ImageSize: s.ImageSize, TextTokens: s.TextTokens, Words: words, BatchSize: o.BatchSize, Pictures: pre,
	})
}

func (s *insideScript) tokenizer() (ScriptWords, error) {
	switch s.Tokenizer {
	case "clip":
		return token.NewCLIPOf(bytes.NewReader(s.words))
	case "wordpiece":
		vocab, err := token.ReadVocab(bytes.NewReader(s.words))
		if err != nil {
			return nil, err
		}
		return token.NewWordPiece(vocab)
	case "siglip":
		return token.NewSigLIP(bytes.NewReader(s.words))
	}
	return nil, fmt.Errorf("tokenizer is %q in extra file %s, want clip, wordpiece or siglip", s.Tokenizer, encoderKey)
}
