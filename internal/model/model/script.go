package model

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// ScriptOptions describe the inputs of a TorchScript archive's methods.
type ScriptOptions struct {
	ImageSize  int // pixels on a side, cropped and normalised as for CLIP; 0: the first usual size that the program takes
	TextTokens int // length of the ids, filled up by FillID
	Words      ScriptWords
	BatchSize  int // 0: DefaultBatchSize

	// Pictures is the preparation of pictures; the zero value: as for CLIP, of ImageSize.
	Pictures imaging.Preprocess
}

// ScriptWords is the tokenizer of a TorchScript archive: token.CLIP, token.WordPiece or token.SigLIP.
type ScriptWords interface {
	// Encode returns at most limit ids of a text, including its start and its end.
	Encode(text string, limit int) []int32
	// Digest returns an identifier of the vocabulary.
	Digest() string
	// FillID returns the id after the end of a text.
	FillID() int32
}

// NewScriptEncoder makes an encoder of a TorchScript archive with methods encode_image (float32 [n, 3, size, size]) and
// encode_text (int64 [n, length]). Both return [n, dim]. The archive is a program: load only one that you trust. The
// archive decides whether its rows are independent (invariant 4 of the package).
func NewScriptEncoder(ctx context.Context, w *torch.Worker, path string, o ScriptOptions) (*Encoder, error) {
	archive, err := fileFingerprint(path)
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
	if o.ImageSize == 0 {
		if o.ImageSize, err = usualSize(ctx, w, script); err != nil {
			script.Free()
			return nil, fmt.Errorf("loading %s: %w", path, err)
		}
	}
	name, err := fingerprint(ctx, w, nil, archive, fmt.Sprintf("%d pixels, %d tokens", o.ImageSize, o.TextTokens), o.Words.Digest())
	if err != nil {
		script.Free()
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
		fill:   o.Words.FillID(),
		script: true,
		free:   script.Free,
	}
	size := o.Pictures
	if size == (imaging.Preprocess{}) {
		size = imaging.Preprocess{Size: o.ImageSize, Mode: imaging.CenterCrop}
	}
	e, err := newEncoder(ctx, w, t, size, name, o.BatchSize)
	if err != nil {
		script.Free()
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return e, nil
}

// usualSizes are the sides of images that published vision towers take.
var usualSizes = []int{224, 256, 288, 336, 378, 384, 448, 512}

// usualSize returns the first usual size that the program takes.
func usualSize(ctx context.Context, w *torch.Worker, script *torch.Script) (int, error) {
	var first error
	for _, size := range usualSizes {
		err := w.Do(ctx, func(s *torch.Scope) error {
			s.NoGrad(func() { s.Call(script, "encode_image", s.Zeros(torch.Float32, 1, 3, int64(size), int64(size))) })
			return nil
		})
		if err == nil || ctx.Err() != nil {
			return size, ctx.Err()
		}
		if first == nil {
			first = err
		}
	}
	return 0, fmt.Errorf("encode_image takes images of none of %v pixels on a side: write image_size into the archive, as export-encoder does (of %d pixels: %w)",
		usualSizes, usualSizes[0], first)
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

// maxExtra bounds the text files of an archive, uncompressed.
const maxExtra = 64 << 20

// NewScriptMatcher makes a matcher of a TorchScript archive with a method match(pixels, ids, mask): float32 [n, 3, S,
// S] normalised as for CLIP, int64 [n, L], and int64 [n, L] with 1 for tokens and 0 for padding. It returns n
// probabilities. The archive's extra files hold the rest: pairstream.config, JSON with image_size, text_tokens and
// caption_words, and pairstream.vocab, a WordPiece token a line. The archive is a program: load only one that you
// trust.
func NewScriptMatcher(ctx context.Context, w *torch.Worker, path string) (*Matcher, error) {
	m := &Matcher{worker: w}
	fingerprint, err := fileFingerprint(path)
	if err != nil {
		return nil, err
	}
	m.fingerprint = fingerprint
	if err := m.readExtra(path); err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	if _, err := newMatcher(m); err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	var script *torch.Script
	if err := w.Do(ctx, func(s *torch.Scope) (err error) {
		script, err = s.LoadScript(path)
		return err
	}); err != nil {
		return nil, err
	}
	m.free = script.Free
	m.match = func(s *torch.Scope, pixels, ids, mask *torch.Tensor, pairs []Pair, part, _ int) ([]float32, error) {
		return matchParts(s, script, pixels, ids, mask, pairs, part)
	}
	return m, nil
}

// matchParts calls the program on parts of one size, and fills the last one up, so that a pair's position does not
// matter.
func matchParts(s *torch.Scope, script *torch.Script, pixels, ids, mask *torch.Tensor, pairs []Pair, part int) ([]float32, error) {
	probabilities := make([]float32, 0, len(pairs))
	for len(pairs) > 0 {
		n := min(part, len(pairs))
		err := s.Nest(func(s *torch.Scope) error {
			texts, images := rowsOf(pairs[:n], part)
			image, text := s.Int64s(images, int64(part)), s.Int64s(texts, int64(part))
			got := s.Call(script, "match", s.IndexSelect(pixels, 0, image), s.IndexSelect(ids, 0, text), s.IndexSelect(mask, 0, text))
			if shape := got.Shape(); len(shape) != 1 || shape[0] != int64(part) {
				return fmt.Errorf("method match gives shape %s for %d pairs, want one probability each", shapeString(shape), part)
			}
			for i, p := range got.Float32s()[:n] {
				if p < 0 || p > 1 { // the caller refuses NaN
					return fmt.Errorf("method match gives %v for image %d and text %d, want a probability from 0 to 1", p, images[i], texts[i])
				}
				probabilities = append(probabilities, p)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		pairs = pairs[n:]
	}
	return probabilities, nil
}

// readExtra takes the configuration and the vocabulary out of the archive.
func (m *Matcher) readExtra(path string) error {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("opening a TorchScript archive: %w", err)
	}
	defer archive.Close()
	config, err := extraFile(archive, configKey)
	if err != nil {
		return err
	}
	vocab, err := extraFile(archive, vocabKey)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(config, &m.Config); err != nil {
		return fmt.Errorf("decoding extra file %s: %w", configKey, err)
	}
	m.Vocab = strings.Split(strings.TrimSuffix(string(vocab), "\n"), "\n")
	c := &m.Config
	c.VocabSize, c.MaxPositions = len(m.Vocab), c.TextTokens
	return checkSizes([]field{
		{"image_size", c.ImageSize, 1, 1 << 13},
		{"text_tokens", c.TextTokens, 2, maxSize},
		{"caption_words", c.CaptionWords, 0, maxSize},
	}, nil)
}

var errNoExtra = errors.New("the archive has no extra file")

// extraFile reads a file that torch.jit.save was given in _extra_files.
func extraFile(archive *zip.ReadCloser, name string) ([]byte, error) {
	for _, f := range archive.File {
		if _, inside, _ := strings.Cut(f.Name, "/"); inside != "extra/"+name {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("opening extra file %s: %w", name, err)
		}
		data, err := io.ReadAll(io.LimitReader(in, maxExtra+1))
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("reading extra file %s: %w", name, err)
		}
		if len(data) > maxExtra {
			return nil, fmt.Errorf("extra file %s has more than %d bytes", name, maxExtra)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%w %s: pass _extra_files to torch.jit.save, as `python -m pairstream export-match` does", errNoExtra, name)
}
