package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/filter"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestRulesOnLanguagesOpenTheModels(t *testing.T) {
	s := must.Get(newSieve(`english: lang == "en"`))(t)
	for caption, dropped := range map[string]bool{
		"a black dog runs along the beach with a stick in its mouth": false,
		"zwei Kinder spielen im Garten hinter dem Haus":              true,
	} {
		if got := s.judge(filter.Words, &schemas.Pair{Caption: caption}, 0, 0, 0).Dropped(); got != dropped {
			t.Errorf("%q: dropped %t, want %t", caption, got, dropped)
		}
	}
}

// Without models there is no run, and the error says what to do. Rules on other things need none.
func TestMissingModelsAreAnError(t *testing.T) {
	none, err := newSieve("")
	must.Do(t, err)
	none.detect = detector(filepath.Join(t.TempDir(), modelsFile))
	if _, err := none.with("long: words > 3"); err != nil {
		t.Error(err)
	}
	_, err = none.with(`english: lang == "en"`)
	for _, want := range []string{"FILTER", "lang", "LANGUAGE_MODELS", "pip install pairstream_languages-*.whl", "make languages", "no such file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestModelsAreLookedForInOrder(t *testing.T) {
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	_, err := defaultModels([]string{first, second})
	for _, want := range []string{first, second, "pip install pairstream_languages-*.whl", "make languages", "LANGUAGE_MODELS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	for _, place := range []string{second, first} {
		must.Do(t, os.WriteFile(place, nil, 0o600))
		if got, err := defaultModels([]string{first, second}); got != place || err != nil {
			t.Errorf("found %q, %v, want %q", got, err, place)
		}
	}
	t.Setenv("GOMODCACHE", folder)
	places := modelPlaces()
	if len(places) != 3 || filepath.Base(places[0]) != modelsFile || !strings.HasPrefix(places[2], folder) {
		t.Errorf("looks in %q", places)
	}
}

func TestLanguageModelsAreASetting(t *testing.T) {
	environ := map[string]string{"ENCODER_CHECKPOINT": "m", "BUCKET_ROOTS": "file:///", "LANGUAGE_MODELS": "/x"}
	if s, err := config.Parse[Settings](environ); err != nil || s.LanguageModels != "/x" {
		t.Errorf("got %q, %v", s.LanguageModels, err)
	}
}
