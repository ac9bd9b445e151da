package python

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// makeMatcher exports a random BLIP as TorchScript to argument 1, and prints what the model itself says of six pairs.
const makeMatcher = `
import json, sys, torch
from pathlib import Path
sys.path.insert(0, "tests")
from test_match import SIZE, WORDS, small_blip
from pairstream.__main__ import main
out = Path(sys.argv[1])
words = [*WORDS, "[DEC]", "[ENC]"]
model = small_blip(out.parent, words)
assert main(["export-match", str(out.parent), str(out), "--text-tokens", "14"]) == 0
pixels = ((torch.arange(3 * 3 * SIZE * SIZE) * 7919 % 1000) / 500 - 1).reshape(3, 3, SIZE, SIZE)
texts = [[2, 5, 6, 11, 3], [2, 7, 3, 0, 0], [2, 5, 8, 3, 0]]
pairs = [(0, 1), (2, 0), (1, 2), (0, 0), (2, 2), (1, 1)]
ids = torch.tensor([texts[t] for _, t in pairs])
ids[:, 0] = len(words) - 1
with torch.no_grad():
    logits = model(input_ids=ids, attention_mask=(ids > 0).long(), pixel_values=pixels[[i for i, _ in pairs]], use_itm_head=True)[0]
print(json.dumps(logits.softmax(1)[:, 1].tolist()))
`

// TestExportedMatcher scores pairs with what `export-match` made of BLIP, as the discriminator does.
func TestExportedMatcher(t *testing.T) {
	run := python(t, "torch", "transformers", "pytest", "PIL", "confluent_kafka", "msgpack")
	path := filepath.Join(t.TempDir(), "con-d.pt")
	printed := mustRun(t, run, "-c", makeMatcher, path)
	var want []float32
	_, numbers, _ := strings.Cut(printed, "\n") // behind what export-match prints
	must.Do(t, json.Unmarshal([]byte(numbers), &want))
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	m := must.Get(model.OpenMatcher(t.Context(), w, path))(t)
	defer m.Free()
	side := m.Config.ImageSize
	pixels := make([]float32, 3*3*side*side)
	for i := range pixels {
		pixels[i] = float32(i*7919%1000)/500 - 1
	}
	pairs := []model.Pair{{Image: 0, Text: 1}, {Image: 2, Text: 0}, {Image: 1, Text: 2}, {Image: 0, Text: 0}, {Image: 2, Text: 2}, {Image: 1, Text: 1}}
	got := must.Get(m.Match(t.Context(), pixels, [][]int32{{2, 5, 6, 11, 3}, {2, 7, 3}, {2, 5, 8, 3}}, pairs, 4))(t)
	spread := float32(0)
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Errorf("pair %v matches with %v, BLIP says %v", pairs[i], got[i], want[i])
		}
		spread = max(spread, max(want[i]-want[0], want[0]-want[i]))
	}
	if spread < 1e-3 {
		t.Errorf("BLIP says %v of every pair", want)
	}
}
