package trainer

import (
	"testing"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestCheckpointsNameTheProgram(t *testing.T) {
	path := must.Get(testTrainer(t, everything()).Save(t.Context(), t.TempDir(), []byte("{}"), 0))(t)
	f := must.Get(openSealed(path))(t)
	if got := f.Metadata["pairstream.version"]; got != version.Full() {
		t.Errorf("the version in the metadata is %q, want %q", got, version.Full())
	}
}

// Calibration and card are of the weights as they were. What is trained further has neither, and its checkpoints say
// so.
func TestTrainingDropsCalibrationAndCard(t *testing.T) {
	tr := testTrainer(t, everything())
	m := tr.Model()
	m.Calibration, m.Card = &model.Calibration{Differences: []float64{0}, Probabilities: []float64{0.5}}, "{}"
	again := must.Get(New(t.Context(), m, everything()))(t)
	defer again.freeState()
	metadata, err := again.Model().Metadata()
	if err != nil || m.Calibration != nil || m.Card != "" {
		t.Errorf("calibration %v, card %q, %v", m.Calibration, m.Card, err)
	}
	for _, key := range []string{"pairstream.calibration", "pairstream.card"} {
		if text, there := metadata[key]; there {
			t.Errorf("metadata %s is %q", key, text)
		}
	}
}
