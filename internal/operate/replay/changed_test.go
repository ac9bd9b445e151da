package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// A run whose records are of several models says so, unless its encoder has followed the trainer. A replay that differs
// says what had changed.
func TestARunThatChangedSaysSo(t *testing.T) {
	models := []Model{{schemas.Embeddings, "b"}, {schemas.Scored, "c"}, {schemas.Embeddings, "a"}}
	m := &Manifest{Models: models}
	m.noteModels()
	want := []string{"embeddings is of 2 models (a, b)"}
	if !slices.Equal(m.Changed, want) {
		t.Errorf("changed %q, want %q", m.Changed, want)
	}
	followed := &Manifest{Models: models, Choices: []weights.Choice{{}}}
	if followed.noteModels(); len(followed.Changed) > 0 {
		t.Errorf("an encoder that followed the trainer: changed %q", followed.Changed)
	}
	r := &Report{Changed: want, Results: []Result{{Equal: true}, {}}}
	if err := r.Err(); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), want[0]) {
		t.Errorf("error %v", err)
	}
	if r.Results = r.Results[:1]; r.Err() != nil {
		t.Errorf("equal results: %v", r.Err())
	}
}
