package service

import (
	"testing"

	"github.com/pairstream/pairstream/internal/process/config"
)

// Whoever sets variables reads their names, not those of fields; the stage's own settings come first.
func TestProblemsNameVariables(t *testing.T) {
	_, err := config.Parse[Settings](map[string]string{"ENCODER_BATCH_SIZE": "0"})
	want := "ENCODER_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one\n" +
		"BUCKET_ROOTS is empty, want the places where images are, such as file:///data\n" +
		"ENCODER_BATCH_SIZE is 0, want at least 1"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
