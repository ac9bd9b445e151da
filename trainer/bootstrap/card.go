package bootstrap

import (
	"fmt"
	"io"
	"strings"

	"github.com/pairstream/pairstream/internal/model/eval"
)

// Card says how weights came about, and how well they tell pairs apart. The weights' file has it in its metadata.
type Card struct {
	Images  int     `json:"images"` // trained on
	Pairs   int     `json:"pairs"`
	HeldOut int     `json:"held_out"` // images of the checks
	Batch   int     `json:"batch"`
	Steps   int64   `json:"steps"`
	Seed    uint64  `json:"seed"`
	Stopped string  `json:"stopped"` // what ended the first phase
	Phases  []Phase `json:"phases"`
	// Measured is of the half of the held-out images on which nothing was fitted, with the calibration.
	Measured *eval.CondReport `json:"measured"`
}

// Phase is a phase that has ended.
type Phase struct {
	MiniBatches string  `json:"mini_batches"`
	Steps       int64   `json:"steps"`
	HardAUC     float64 `json:"hard_auc"` // at its end
}

// Print prints the card of a training.
func (c *Card) Print(w io.Writer) error {
	phases := make([]string, len(c.Phases))
	for i, p := range c.Phases {
		phases[i] = fmt.Sprintf("%d %s (AUC on hard pairs %.3f)", p.Steps, p.MiniBatches, p.HardAUC)
	}
	_, err := fmt.Fprintf(w, "card: %d images with %d captions, %d steps of %d: %s\ncard: the first phase ended with %s; %d images were held out, "+
		"and on half of them AUC is %.3f easy and %.3f hard, calibration error %.1f %%\n",
		c.Images, c.Pairs, c.Steps, c.Batch, strings.Join(phases, ", "), c.Stopped, c.HeldOut,
		c.Measured.EasyAUC, c.Measured.HardAUC, 100*c.Measured.CalibrationError)
	return err
}
