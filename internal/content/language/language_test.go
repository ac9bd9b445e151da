package language_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pemistahl/lingua-go"

	"github.com/pairstream/pairstream/internal/content/language"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// models is the folder of lingua-go's module, where its models are.
var models = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", language.Module).Output()
	return filepath.Join(strings.TrimSpace(string(out)), language.Folder), err
})

func open(t testing.TB) *language.Detector {
	t.Helper()
	folder := must.Get(models())(t)
	d := must.Get(language.Open(folder))(t)
	return d
}

func TestOf(t *testing.T) {
	d := open(t)
	for text, want := range map[string]string{
		"a black dog runs along the beach with a stick in its mouth": "en",
		"zwei Kinder spielen im Garten hinter dem Haus":              "de",
		"deux enfants jouent dans le jardin derrière la maison":      "fr",
		"dos niños juegan en el jardín detrás de la casa":            "es",
		"маленький мальчик бежит по пляжу с чёрной собакой":          "ru",
		"子供たちが庭で遊んでいる":                                               "ja",
		"두 아이가 정원에서 놀고 있다":                                           "ko",
		"": "", "12345": "", " \n": "", "🐕🐕": "",
	} {
		if got := d.Of(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestShortCaptions counts captions of 23 languages, 4 to 10 words each, whose language is told. English is what most
// rules ask for, so none of its captions may be lost, and no other one may pass for English.
func TestShortCaptions(t *testing.T) {
	raw := must.Get(os.ReadFile("testdata/captions.tsv"))(t)
	d := open(t)
	right, all := 0, 0
	for line := range strings.Lines(string(raw)) {
		want, caption, _ := strings.Cut(strings.TrimSpace(line), "\t")
		got := d.Of(caption)
		if all++; got == want {
			right++
		} else if got == "en" || want == "en" {
			t.Errorf("%q is %q, want %q", caption, got, want)
		}
	}
	t.Logf("%d of %d captions", right, all)
	if right < 118 {
		t.Errorf("%d of %d captions, want at least 118", right, all)
	}
}

// TestAnswersAreTheSame asks for texts that are short, where languages are near each other, from two detectors at once.
func TestAnswersAreTheSame(t *testing.T) {
	words := strings.Fields("hand ball sand auto tomato hotel museum bar la de man is dag en er no me te si plan cafe rosa")
	var texts []string
	for i, a := range words {
		for _, b := range words[:i] {
			texts = append(texts, a+" "+b)
		}
	}
	answers := make([][]string, 4)
	detectors := []*language.Detector{open(t), open(t)}
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			for _, text := range texts {
				answers[i] = append(answers[i], detectors[i%2].Of(text))
			}
		})
	}
	all.Wait()
	for i := range answers {
		for k, text := range texts {
			if answers[i][k] != answers[0][k] {
				t.Errorf("%q is %q and %q", text, answers[0][k], answers[i][k])
			}
		}
	}
}

// TestAnswersAreLinguas compares with the library whose rules and models these are. It has no answer to
// compare with where its two best are nearer than its sums are exact, and where it answers otherwise the next time.
func TestAnswersAreLinguas(t *testing.T) {
	raw := must.Get(os.ReadFile("testdata/captions.tsv"))(t)
	var texts, words []string
	for line := range strings.Lines(string(raw)) {
		_, caption, _ := strings.Cut(strings.TrimSpace(line), "\t")
		texts, words = append(texts, caption), append(words, strings.Fields(caption)...)
	}
	words = append(words, "〇", "日本の犬", "abc漢字", "ひらがな", "ẞtraße", "ñandú", "İstanbul", "42", "-", "a", "the", "ЂЋ", "κύμα", "한국", "เด็ก", "Ωa", "ǅ", "ー")
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text []string
		for range 1 + random.IntN(6) {
			text = append(text, words[random.IntN(len(words))])
		}
		texts = append(texts, strings.Join(text, " "))
	}
	texts = append(texts, strings.Repeat("a dog and a boy ", 200))
	theirs, ours, compared := lingua.NewLanguageDetectorBuilder().FromAllLanguages().WithLowAccuracyMode().Build(), open(t), 0
	ask := func(text string) (code string, ahead float64) {
		best := theirs.ComputeLanguageConfidenceValues(text)
		if ahead = best[0].Value() - best[1].Value(); ahead > 0 {
			code = strings.ToLower(best[0].Language().IsoCode639_1().String())
		}
		return code, ahead
	}
	for _, text := range texts {
		want, ahead := ask(text)
		if ahead > 0 && ahead < 1e-5 {
			continue
		}
		got, same := ours.Of(text), true
		for again := 0; got != want && same && again < 50; again++ {
			other, _ := ask(text)
			same = other == want
		}
		if got != want && same {
			t.Errorf("%q is %q, and %q to lingua by %g", text, got, want, ahead)
		}
		compared++
	}
	if compared < 400 {
		t.Errorf("%d texts compared, want at least 400 of %d", compared, len(texts))
	}
}

func TestPackedModels(t *testing.T) {
	folder := must.Get(models())(t)
	var once, again bytes.Buffer
	for _, b := range []*bytes.Buffer{&once, &again} {
		must.Do(t, language.Pack(b, folder))
	}
	if !bytes.Equal(once.Bytes(), again.Bytes()) {
		t.Error("the models are packed into other bytes the second time")
	}
	path := filepath.Join(t.TempDir(), "languages.zip")
	write := func(b []byte) {
		must.Do(t, os.WriteFile(path, b, 0o600))
	}
	write(once.Bytes())
	d := must.Get(language.Open(path))(t)
	if got := d.Of("zwei Kinder spielen im Garten"); got != "de" {
		t.Errorf("with packed models it is %q, want de", got)
	}

	cut := once.Bytes()[:once.Len()/2]
	write(cut)
	if _, err := language.Open(path); err == nil || !strings.Contains(err.Error(), "no archive of language models") {
		t.Errorf("half an archive: error %v", err)
	}
	other := t.TempDir()
	must.Do(t, os.CopyFS(other, os.DirFS(folder)))
	must.Do(t, os.Remove(filepath.Join(other, "en/trigrams.pb.bin.zip")))
	if _, err := language.Open(other); err == nil || !strings.Contains(err.Error(), "other language models") {
		t.Errorf("without the trigrams of English: error %v", err)
	}
	if _, err := language.Open(filepath.Join(other, "none")); !os.IsNotExist(err) {
		t.Errorf("no file: error %v", err)
	}
}

func TestMemoryOfTheModels(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	d := open(t)
	if made := heap(); made > before+16<<20 {
		t.Errorf("a detector that was asked nothing takes %d bytes", made-before)
	}
	for _, text := range []string{"a black dog runs along the beach", "маленький мальчик бежит по пляжу", "طفلان يلعبان في الحديقة", "दो बच्चे बगीचे में खेल रहे हैं"} {
		d.Of(text)
	}
	after := heap()
	t.Logf("the models take %d MiB", (after-before)>>20)
	if after > before+128<<20 {
		t.Errorf("the models take %d bytes, want at most 128 MiB", after-before)
	}
	runtime.KeepAlive(d)
}

func BenchmarkOf(b *testing.B) {
	d := open(b)
	for b.Loop() {
		d.Of("a black dog runs along the beach with a stick in its mouth")
	}
}
