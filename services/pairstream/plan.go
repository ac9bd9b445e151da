//go:build cgo

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/operate/capacity"
)

// planVocabulary is the number of words of BERT, which the papers' models have.
const planVocabulary = 30_522

func newPlanCommand() *cobra.Command {
	r := capacity.Request{Epochs: 20, Group: 5_000_000, Batch: 96, Space: 4_800, Image: 44_000}
	var gpu, preset string
	var candidates int
	cmd := &cobra.Command{
		Use: "plan --pairs N --days D",
		Long: "Computes the machines that train on a crawl of --pairs within --days, and prints the assumptions behind every figure.\n" +
			"It needs neither a log nor a GPU. Each assumption is marked as measured, counted, chosen or predicted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if r.GPU, err = capacity.GPUOf(gpu); err != nil {
				return err
			}
			if candidates < 0 {
				return fmt.Errorf("--candidates is %d, want 0 or more", candidates)
			}
			if r.Model, err = planModel(preset, candidates); err != nil {
				return err
			}
			p, err := capacity.Make(r)
			if err != nil {
				return err
			}
			return p.Print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.Float64Var(&r.Pairs, "pairs", 0, "pairs of the crawl, as 1e9")
	f.Float64Var(&r.Days, "days", 0, "days until training has finished")
	f.StringVar(&gpu, "gpu", "h100", "kind of GPU: "+strings.Join(capacity.GPUNames(), ", "))
	f.StringVar(&preset, "preset", "base", "shape of encoder, Con-D and model: "+strings.Join(model.PresetNames(), ", "))
	f.Float64Var(&r.Epochs, "epochs", r.Epochs, "epochs (EPOCHS)")
	f.Float64Var(&r.Group, "group", r.Group, "pairs of a group (GROUP_SIZE)")
	f.Float64Var(&r.Batch, "batch", r.Batch, "pairs of a mini-batch (BATCH_SIZE)")
	f.Float64Var(&r.Space, "space", r.Space, "pairs of a walk (SEARCH_SPACE)")
	f.IntVar(&candidates, "candidates", 2, "candidates that Con-D scores in each direction (CANDIDATES); 0: no Con-D")
	f.IntVar(&r.Lanes, "lanes", 0, "lanes (LANES); 0: as many as the stages need")
	f.Float64Var(&r.Image, "image", r.Image, "bytes of an image in the bucket")
	f.Float64Var(&r.TrainRate, "train-rate", 0, "pairs/s of one GPU in training, as make bench-gpu measured; 0: predicted from counts")
	return cmd
}

// planModel counts the operations of a preset, with captions as long as it takes.
func planModel(preset string, candidates int) (capacity.Model, error) {
	c, err := model.Preset(preset, planVocabulary)
	if err != nil {
		return capacity.Model{}, err
	}
	n := float64(c.TextTokens)
	m := capacity.Model{
		Name: preset, Encode: c.ImageOperations() + c.TextOperations(n), Train: c.StepOperations(n), Dim: float64(c.EmbedDim),
		Parameters: float64(c.Parameters()),
	}
	if candidates > 0 {
		m.Score = c.ScoreOperations(n, float64(candidates))
	}
	return m, nil
}
