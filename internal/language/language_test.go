package language_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/language"
)

func TestOf(t *testing.T) {
	d := language.New()
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

// TestShortCaptions counts captions of 23 languages, 4 to 10 words each, whose language is told. English is what most rules
// ask for, so none of its captions may be lost, and no other one may pass for English.
func TestShortCaptions(t *testing.T) {
	raw, err := os.ReadFile("testdata/captions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	d := language.New()
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
	detectors := []*language.Detector{language.New(), language.New()}
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

func TestMemoryOfTheModels(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	d := language.New()
	if made := heap(); made > before+4<<20 {
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
	d := language.New()
	for b.Loop() {
		d.Of("a black dog runs along the beach with a stick in its mouth")
	}
}
