package language

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pemistahl/lingua-go/serialization"
	"google.golang.org/protobuf/proto"
)

// Module brings the models, in the folder Folder of its version Version.
const (
	Module  = "github.com/pemistahl/lingua-go"
	Version = "v1.4.0"
	Folder  = "language-models"
)

// digest is the SHA-256 of the models: of every name, its length and its bytes.
const digest = "04f4d0c56389a730f897a8e54a1c9677364018dc56afa0afb3bf22448ae166cf"

// maxModel bounds the bytes of one packed model, so that another file is not read whole.
const maxModel = 4 << 20

// modelName returns the file of the models that count one to three letters, by their number less one.
func modelName(code string, n int) string {
	return code + "/" + [...]string{"unigrams", "bigrams", "trigrams"}[n] + ".pb.bin.zip"
}

// readModels reads every model, and refuses others than this version's.
func readModels(path string) (map[string][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var files fs.FS
	if info.IsDir() {
		files = os.DirFS(path)
	} else {
		archive, err := zip.OpenReader(path)
		if err != nil {
			return nil, fmt.Errorf("%s is no archive of language models: %w", path, err)
		}
		defer archive.Close()
		files = archive
	}
	out, sum := make(map[string][]byte), sha256.New()
	for _, l := range speeches {
		for n := range 3 {
			name := modelName(l.code, n)
			raw, err := readModel(files, name)
			if errors.Is(err, fs.ErrNotExist) && n > 0 {
				continue // Chinese and others have no models: their letters tell them
			}
			if err != nil {
				return nil, fmt.Errorf("reading language models in %s: %w", path, err)
			}
			fmt.Fprintf(sum, "%s %d\n", name, len(raw))
			sum.Write(raw)
			out[name] = raw
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return nil, fmt.Errorf("%s has other language models than those of lingua-go %s: their SHA-256 is %s, want %s", path, Version, got, digest)
	}
	return out, nil
}

func readModel(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxModel))
}

// Pack writes the models of a folder into an archive, which is the same bytes every time.
func Pack(w io.Writer, folder string) error {
	files, err := readModels(folder)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(w)
	for _, l := range speeches {
		for n := range 3 {
			raw, there := files[modelName(l.code, n)]
			if !there {
				continue
			}
			f, err := archive.CreateHeader(&zip.FileHeader{Name: modelName(l.code, n), Method: zip.Store}) // they are zips already
			if err != nil {
				return err
			}
			if _, err := f.Write(raw); err != nil {
				return err
			}
		}
	}
	return archive.Close()
}

// unpack reads a packed model. Its digest was right, so that a failure is a fault of this package.
func unpack(packed []byte) map[string]float64 {
	if packed == nil {
		return nil
	}
	model, err := parse(packed)
	if err != nil {
		panic(fmt.Sprintf("language: unpacking a model whose digest is right: %v", err))
	}
	out := make(map[string]float64, model.TotalNgrams)
	for _, set := range model.NgramSets {
		for _, gram := range set.Ngrams {
			out[gram] = set.Probability
		}
	}
	return out
}

func parse(packed []byte) (*serialization.SerializableLanguageModel, error) {
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, err
	}
	if len(archive.File) != 1 {
		return nil, fmt.Errorf("%d files, want one", len(archive.File))
	}
	f, err := archive.File[0].Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	model := new(serialization.SerializableLanguageModel)
	return model, proto.Unmarshal(raw, model)
}
