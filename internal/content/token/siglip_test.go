package token

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pairstream/pairstream/internal/testing/must"
)

const siglipModel = "testdata/siglip/siglip.bin"

func openSigLIP(t testing.TB) *SigLIP {
	t.Helper()
	words := must.Get(FromFile("model", siglipModel, NewSigLIP))(t)
	return words
}

// TestSigLIPAsSentencePiece compares with the ids of SentencePiece itself (testdata/siglip/make.py), for captions as
// SigLIP takes them, and for texts whose spaces and marks are left to SentencePiece.
func TestSigLIPAsSentencePiece(t *testing.T) {
	words := openSigLIP(t)
	type text struct {
		Text, Canonical string
		IDs             []int32
	}
	var want struct{ Captions, Texts []text }
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/siglip/siglip.json"))(t), &want))
	if len(want.Captions) < 30 || len(want.Texts) < 30 {
		t.Fatalf("%d captions and %d texts, want many", len(want.Captions), len(want.Texts))
	}
	for _, c := range want.Captions {
		if got := canonical(c.Text); got != c.Canonical {
			t.Errorf("%q becomes %q, want %q", c.Text, got, c.Canonical)
		}
		if got := words.Encode(c.Text, 1000); !slices.Equal(got, append(slices.Clone(c.IDs), 1)) {
			t.Errorf("%q is encoded as %d, want %d and 1", c.Text, got, c.IDs)
		}
		if got := words.Encode(c.Text, 5); len(got) > 5 || got[len(got)-1] != 1 || !slices.Equal(got[:len(got)-1], c.IDs[:min(4, len(c.IDs))]) {
			t.Errorf("%q is encoded as %d in at most 5 ids", c.Text, got)
		}
	}
	for _, c := range want.Texts {
		if got := words.pieces.encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q has the pieces %d, want %d", c.Text, got, c.IDs)
		}
	}
	if got := words.Encode("a dog", -3); !slices.Equal(got, []int32{words.EndID}) {
		t.Errorf("a limit below 1 gives %d, want the end alone", got)
	}
}

func TestSigLIPRefuses(t *testing.T) {
	model := must.Get(os.ReadFile(siglipModel))(t)
	part := func(field protowire.Number, bytes ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), bytes)
	}
	for want, file := range map[string][]byte{
		"no protocol buffer":          []byte("[PAD]\n[UNK]\nred\n"),
		"cut short":                   append(bytes.Clone(model), part(modelNormalizer, 2<<3|2, 1, 7)...),
		"its kind is 2":               append(bytes.Clone(model), part(modelTrainer, trainerKind<<3, 2)...),
		"cuts characters into bytes":  append(bytes.Clone(model), part(modelTrainer, 35<<3&0x7F|0x80, 2, 1)...),
		"is empty":                    append(bytes.Clone(model), part(modelPieces)...),
		"has the score +Inf":          append(bytes.Clone(model), part(modelPieces, 1<<3|2, 1, 'x', 2<<3|5, 0, 0, 0x80, 0x7F)...),
		"of a kind that is not known": append(bytes.Clone(model), part(modelPieces, 1<<3|2, 1, 'x', 3<<3, 6)...),
		"pieces is ordinary":          {},
	} {
		if _, err := NewSigLIP(bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// FuzzSigLIPModel reads what is no model, or one that is damaged, without a panic.
func FuzzSigLIPModel(f *testing.F) {
	model := must.Get(os.ReadFile(siglipModel))(f)
	f.Add(model, "a red dog ﬁsh …")
	f.Add(model[:len(model)/2], "a")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		words, err := NewSigLIP(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, id := range words.Encode(text, 64) {
			if id < 0 || int(id) >= words.Size() {
				t.Fatalf("%q has the id %d of %d", text, id, words.Size())
			}
		}
	})
}

func BenchmarkSigLIP(b *testing.B) {
	words := openSigLIP(b)
	for b.Loop() {
		words.Encode("A black dog and two blue kites beside the green umbrella on a beach.", 64)
	}
}
