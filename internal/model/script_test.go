package model_test

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
)

// towersCode is the program of a TorchScript module without weights. An image's vector is the mean of its rows of the red
// channel. A text's vector is the first numbers of its ids.
const towersCode = `class Towers(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def encode_image(self: __torch__.Towers,
    x: Tensor) -> Tensor:
    _0 = torch.select(x, 1, 0)
    return torch.mean(_0, [2])
  def encode_text(self: __torch__.Towers,
    ids: Tensor) -> Tensor:
    _0 = torch.to(ids, 6)
    return torch.slice(_0, 1, 0, %d)
`

// writeScript makes a TorchScript archive by hand. It is a zip file of the code and the pickled module, whose only
// attribute says that it is not in training.
func writeScript(t *testing.T, code string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "towers.pt")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(out)
	for _, entry := range []struct{ name, text string }{
		{"data.pkl", "\x80\x02c__torch__\nTowers\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x89ub."},
		{"code/__torch__.py", code},
		{"constants.pkl", "\x80\x02)."},
		{"version", "3\n"},
	} {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: "towers/" + entry.name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(entry.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestScriptEncoder(t *testing.T) {
	w := worker(t)
	e, err := model.NewScriptEncoder(context.Background(), w, writeScript(t, fmt.Sprintf(towersCode, 6)), model.ScriptOptions{
		ImageSize: 6, TextTokens: 8, Words: clipWords(t), BatchSize: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	if e.Dim() != 6 || e.ImageSize() != 6 {
		t.Errorf("%d values for images of %d", e.Dim(), e.ImageSize())
	}
	checkRows(t, e, 7)
}
