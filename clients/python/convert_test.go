package python

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// makeCheckpoint writes the weights of a safetensors file as the authors' code does: with momentum copies, queues and
// aliases, and the optimiser beside them. Argument 3 is what the text encoder's names begin with.
const makeCheckpoint = `
import sys, torch
from safetensors.torch import load_file
state = {}
for name, x in load_file(sys.argv[1]).items():
    name = name.replace("text_encoder.bert.", sys.argv[3])
    state["module." + name] = x
    top, _, rest = name.partition(".")
    state["module." + top + "_m" + ("." + rest if rest else "")] = torch.zeros_like(x)
words = state["module." + sys.argv[3] + "embeddings.word_embeddings.weight"]
state["module.text_encoder.cls.predictions.decoder.weight"] = words
state["module." + sys.argv[3] + "embeddings.position_ids"] = torch.arange(64).unsqueeze(0)
state["module.image_queue"] = torch.zeros(64, 8)
state["module.queue_ptr"] = torch.zeros(1, dtype=torch.long)
torch.save({"model": state, "optimizer": {"step": 3}, "epoch": 2}, sys.argv[2])
`

func TestConvertCheckpoint(t *testing.T) {
	run := python(t, "torch", "safetensors", "confluent_kafka", "msgpack")
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	vocab := strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] cat dog")
	config := must.Get(model.Preset("tiny", len(vocab)))(t)
	config.VisionHeads, config.TextHeads = 2, 2 // the authors' are 64 wide, which shapes do not tell
	config.CaptionWords = 30                    // as the authors prepare captions
	original := must.Get(model.New(t.Context(), w, config, 1))(t)
	defer original.Free()
	original.Vocab = vocab
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, original.Save(t.Context(), at("weights")))
	must.Do(t, os.WriteFile(at("vocab.txt"), []byte(strings.Join(vocab, "\n")+"\n"), 0o644))
	for name, prefix := range map[string]string{"pre-training": "text_encoder.bert.", "retrieval": "text_encoder."} {
		t.Run(name, func(t *testing.T) {
			mustRun(t, run, "-c", makeCheckpoint, at("weights"), at("their.pth"), prefix)
			mustRun(t, run, "-m", "pairstream", "convert", at("their.pth"), at("ours"), "--vocab", at("vocab.txt"), "--heads", "2")
			m := must.Get(model.Load(t.Context(), w, at("ours"), model.LoadOptions{}))(t)
			defer m.Free()
			m.Config.TextTokens = original.Config.TextTokens // a choice of the user's, which shapes do not tell either
			got := must.Get(m.Fingerprint(t.Context()))(t)
			want := must.Get(original.Fingerprint(t.Context()))(t)
			if got != want {
				t.Errorf("fingerprint %s of %+v, want %s of %+v", got, m.Config, want, original.Config)
			}
		})
	}
	mustRun(t, run, "-m", "pairstream", "convert", at("their.pth"), at("large"), "--vocab", at("vocab.txt"), "--image-size", "96", "--heads", "2")
	m := must.Get(model.Load(t.Context(), w, at("large"), model.LoadOptions{}))(t)
	defer m.Free()
	if m.Config.ImageSize != 96 {
		t.Errorf("images of %d pixels, want 96", m.Config.ImageSize)
	}
	for want, args := range map[string][]string{
		"the vocabulary has 0 tokens, the model 7": {at("their.pth"), at("bad"), "--vocab", os.DevNull, "--heads", "2"},
		"give --heads":                          {at("their.pth"), at("bad"), "--vocab", at("vocab.txt")},
		"want a multiple of the patch size, 16": {at("their.pth"), at("bad"), "--vocab", at("vocab.txt"), "--image-size", "100", "--heads", "2"},
	} {
		if _, err := run("", append([]string{"-m", "pairstream", "convert"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// makeFirst writes a random DeiT by timm's names and a random BERT by Hugging Face's, and makes first weights of them.
const makeFirst = `
import sys
sys.path.insert(0, "tests")
from pathlib import Path
from test_convert import make_files
from pairstream.__main__ import main
sys.exit(main(["init", *make_files(Path(sys.argv[1]))]))
`

// TestFirstWeights loads what `init` makes of DeiT and BERT, with all that a training needs.
func TestFirstWeights(t *testing.T) {
	run := python(t, "torch", "safetensors", "transformers", "pytest", "confluent_kafka", "msgpack")
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	dir := t.TempDir()
	mustRun(t, run, "-c", makeFirst, dir)
	m := must.Get(model.Load(t.Context(), w, filepath.Join(dir, "first.safetensors"), model.LoadOptions{Trainable: true}))(t)
	defer m.Free()
	want := model.Config{
		ImageSize: 48, PatchSize: 8, VisionDim: 128, VisionDepth: 3, VisionHeads: 2, TextHidden: 128, TextLayers: 12, FusionLayer: 6, TextHeads: 2,
		TextIntermediate: 96, VocabSize: 60, MaxPositions: 40, EmbedDim: 16, TextTokens: 25, CaptionWords: 30,
	}
	if m.Config != want || len(m.Vocab) != want.VocabSize {
		t.Errorf("%+v with %d words, want %+v", m.Config, len(m.Vocab), want)
	}
	original := must.Get(model.New(t.Context(), w, want, 1))(t)
	defer original.Free()
	if got := len(m.Params()); got != len(original.Params()) {
		t.Errorf("%d weights, want the %d of a model that has MLM", got, len(original.Params()))
	}
}
