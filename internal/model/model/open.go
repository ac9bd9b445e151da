package model

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// EncoderOptions configure the use of a file that holds an off-the-shelf encoder. The kind of file decides which ones
// are needed.
type EncoderOptions struct {
	BatchSize int // 0: DefaultBatchSize
	// VocabPath is the file of the vocabulary. For CLIP it has the merges, gzipped or not; empty: merges.txt beside the
	// weights. For an ALBEF file without a vocabulary it is a WordPiece vocabulary, a token a line. For TorchScript it is
	// either of these, or SigLIP's model of SentencePiece.
	VocabPath  string
	ImageSize  int // for TorchScript without its sizes inside; 0: the first usual one that it takes
	TextTokens int // for such TorchScript; 0: CLIP's 77, SigLIP's 64
}

const (
	clipTextTokens   = 77
	siglipTextTokens = 64
)

// OpenEncoder loads an encoder from a file. *.pt, *.ts and *.torchscript are TorchScript. Any other file is
// safetensors, with Hugging Face's CLIP names, with open_clip's or with ALBEF's.
func OpenEncoder(ctx context.Context, w *torch.Worker, path string, o EncoderOptions) (*Encoder, error) {
	if isScript(path) {
		return openScript(ctx, w, path, o)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	switch {
	case isOpenCLIP(f):
		return openCLIP(ctx, path, o, func() (*CLIP, error) { return loadOpenCLIP(ctx, w, f, path) })
	case slices.ContainsFunc(f.Names(), func(name string) bool { return strings.HasPrefix(name, "vision_model.") }):
		return openCLIP(ctx, path, o, func() (*CLIP, error) { return loadCLIP(ctx, w, f, path, CLIPOptions{}) })
	}
	vocab, err := readVocab(o.VocabPath)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	m, err := FromFile(ctx, w, f, LoadOptions{Vocab: vocab, Frozen: true})
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	if m.Vocab == nil {
		m.Free()
		return nil, fmt.Errorf("loading %s: no vocabulary inside, name its file", path)
	}
	e, err := NewEncoder(ctx, m, o.BatchSize)
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return e, nil
}

// HasMatching reports whether a file is a model with a matching head, which [Load] reads.
func HasMatching(path string) (bool, error) {
	if isScript(path) {
		return false, nil
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return false, err
	}
	_, has := f.Tensor("itm_head.weight")
	return has, nil
}

func openScript(ctx context.Context, w *torch.Worker, path string, o EncoderOptions) (*Encoder, error) {
	inside, err := scriptInside(path)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	if inside != nil {
		return inside.open(ctx, w, path, o)
	}
	words, err := scriptWords(o.VocabPath)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	length := o.TextTokens
	if _, siglip := words.(*token.SigLIP); siglip && length == 0 {
		length = siglipTextTokens
	} else if length == 0 {
		length = clipTextTokens
	}
	return NewScriptEncoder(ctx, w, path, ScriptOptions{
		ImageSize: o.ImageSize, TextTokens: length, Words: words, BatchSize: o.BatchSize,
	})
}

// scriptWords reads CLIP's merges, a WordPiece vocabulary or a model of SentencePiece. Their first bytes tell them apart.
func scriptWords(path string) (ScriptWords, error) {
	if path == "" {
		return nil, errors.New("TorchScript without words inside needs the file of its words: CLIP's merges, a WordPiece vocabulary or spiece.model")
	}
	return token.FromFile("vocabulary", path, func(in io.Reader) (ScriptWords, error) {
		text := bufio.NewReader(in)
		first, err := text.Peek(2)
		switch {
		case err != nil: // too short for any of them
		case string(first) == gzipHead:
			return token.NewCLIP(text)
		case first[0] == '\n': // the tag of the first piece in a protocol buffer; as text it would be an empty line
			return token.NewSigLIP(text)
		}
		vocab, err := token.ReadVocab(text)
		if err != nil {
			return nil, err
		}
		return token.NewWordPiece(vocab)
	})
}

func openCLIP(ctx context.Context, path string, o EncoderOptions, load func() (*CLIP, error)) (*Encoder, error) {
	words, err := readMerges(o.VocabPath, path)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	m, err := load()
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	e, err := NewCLIPEncoder(ctx, m, words, o.BatchSize)
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return e, nil
}

// mergesFile is the name of the merges that transformers and open_clip save beside the weights.
const mergesFile = "merges.txt"

// readMerges reads merges, gzipped or not. If path is empty it reads those beside the weights.
func readMerges(path, weights string) (*token.CLIP, error) {
	if path == "" {
		path = filepath.Join(filepath.Dir(weights), mergesFile)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("a CLIP text encoder needs the file of its merges (ENCODER_VOCAB, --vocab), or merges.txt beside the weights")
		}
	}
	return token.FromFile("merges", path, func(in io.Reader) (*token.CLIP, error) {
		text := bufio.NewReader(in)
		if head, err := text.Peek(2); err == nil && string(head) != gzipHead {
			return token.NewCLIPOf(text)
		}
		return token.NewCLIP(text)
	})
}

// gzipHead begins every gzipped file.
const gzipHead = "\x1f\x8b"

// weightsFiles are the names under which open_clip and transformers save weights in a folder.
var weightsFiles = []string{"open_clip_model.safetensors", "model.safetensors"}

// WeightsIn returns the file of weights in a folder that open_clip or transformers saved, and any other path as it is.
func WeightsIn(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // a file that is not there is reported by its reader
	}
	for _, name := range weightsFiles {
		file := filepath.Join(path, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("folder %s holds neither %s: name the file of weights; of pickles (.bin, .pth) and of weights in several files, %s",
		path, strings.Join(weightsFiles, " nor "), anEncoder)
}

// readVocab reads a vocabulary. An empty path gives none.
func readVocab(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	return token.FromFile("vocabulary", path, token.ReadVocab)
}
