// Package language detects the language of a caption.
//
// It counts trigrams, with the models of 75 languages and the rules of lingua-go in its low-accuracy mode. The models
// would be half of the program, so they are not part of it: [Open] reads their file, of 10 MiB. The models of a script
// are unpacked when a text first needs them, and then take about 50 MiB. A detector is safe for concurrent use.
//
// Invariants:
//
//  1. The package checks the models' digest. So the answer is a function of the text alone.
//  2. If the two best scores are practically equal there is no answer, because lingua-go's sums depend on an order.
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
	"math"
	"os"
	"slices"
	"sync"

	"github.com/pemistahl/lingua-go/serialization"
	"google.golang.org/protobuf/proto"
)

// least is the lead, of 1, that the best language needs over the second.
const least = 1e-6

// Detector detects languages.
type Detector struct {
	models [][3]func() map[string]float64 // of each language, by the number of letters minus one
}

// Open reads the models: a file that [Pack] wrote, or the folder language-models of lingua-go's module. It does not
// unpack them.
func Open(path string) (*Detector, error) {
	files, err := readModels(path)
	if err != nil {
		return nil, err
	}
	d := &Detector{models: make([][3]func() map[string]float64, len(speeches))}
	for i, l := range speeches {
		for n := range d.models[i] {
			packed := files[modelName(l.code, n)]
			d.models[i][n] = sync.OnceValue(func() map[string]float64 { return unpack(packed) })
		}
	}
	return d, nil
}

// Of returns the language of a text as ISO 639-1 code, such as "en" or "zh"; empty if it cannot be determined.
func (d *Detector) Of(text string) string {
	words := wordsOf(text)
	if len(words) == 0 {
		return ""
	}
	if code := byRules(words); code != "" {
		return code
	}
	languages := candidates(words)
	if len(languages) == 1 {
		return speeches[languages[0]].code
	}
	return d.best(words, languages)
}

// best returns the language whose models make the words most likely, if it is clearly ahead of the second.
func (d *Detector) best(words [][]rune, languages []int) string {
	letters := 0
	for _, w := range words {
		letters += len(w)
	}
	if letters < 3 {
		return ""
	}
	grams := trigrams(words)
	var sums []float64
	var scored []int
	for _, l := range languages {
		if sum := d.score(l, grams); sum < 0 {
			sums, scored = append(sums, sum), append(scored, l)
		}
	}
	if len(sums) == 0 {
		return ""
	}
	first := 0
	for i, sum := range sums {
		if sum > sums[first] {
			first = i
		}
	}
	total, second := 0.0, 0.0
	for i, sum := range sums {
		share := math.Exp(sum - sums[first])
		if total += share; i != first {
			second = max(second, share)
		}
	}
	if (1-second)/total < least {
		return ""
	}
	return speeches[scored[first]].code
}

// score adds the logarithms of the trigrams' probabilities in a language. For an unknown trigram it uses the first two
// letters or one of them.
func (d *Detector) score(l int, grams []string) float64 {
	sum := 0.0
	for _, gram := range grams {
		letters := []rune(gram)
		for n := len(letters); n > 0; n-- {
			if p := d.models[l][n-1]()[string(letters[:n])]; p > 0 {
				sum += math.Log(p)
				break
			}
		}
	}
	return sum
}

// trigrams returns the distinct runs of three letters within words, sorted, so that sums have one order.
func trigrams(words [][]rune) []string {
	var out []string
	for _, w := range words {
		for i := 0; i+3 <= len(w); i++ {
			out = append(out, string(w[i:i+3]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Module contains the models, in the folder Folder of its version Version.
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

// readModels reads every model, and refuses those of other versions.
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

// Pack writes the models of a folder into an archive. The same models give the same bytes.
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

// unpack reads a packed model. Its digest was right, so a failure is a bug in this package.
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
