package dataset_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// textFile writes a file and returns its path.
func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.txt")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReadClasses(t *testing.T) {
	c := must.Get(dataset.ReadClasses(textFile(t, "\ufeffred star\r\n great white shark , white shark,\r\ncat\n\n")))(t)
	want := [][]string{{"red star"}, {"great white shark", "white shark"}, {"cat"}}
	if !slices.EqualFunc(c.Names, want, slices.Equal) || c.Notes != nil {
		t.Errorf("classes %q, notes %q; want %q", c.Names, c.Notes, want)
	}
	c = must.Get(dataset.ReadClasses(textFile(t, "crane\ndog\nCrane, bird\n")))(t)
	if len(c.Names) != 3 || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], `line 3`) || !strings.Contains(c.Notes[0], `repeats "Crane" of line 1`) {
		t.Errorf("classes %q, notes %q", c.Names, c.Notes)
	}
	for text, want := range map[string]string{
		"":             "is empty",
		" \n\n":        "is empty",
		"cat\n\ndog\n": "line 2 of ",
		"cat\n , \n":   "line 2 of ",
	} {
		if _, err := dataset.ReadClasses(textFile(t, text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--zeroshot: ") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestReadTemplates(t *testing.T) {
	got := must.Get(dataset.ReadTemplates(textFile(t, "a photo of a {}.\nart of the {c}.\n")))(t)
	if want := []string{"a photo of a {}.", "art of the {}."}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"":                             "is empty",
		"a photo of a {}.\na photo.\n": `line 2 of `,
		"{} and {}":                    "want one {}",
		"{}\n\n{}":                     "line 2 of ",
	} {
		if _, err := dataset.ReadTemplates(textFile(t, text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--templates: ") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// classedTar writes images under names of the keys, with a class where it is not "".
func classedTar(t *testing.T, entries ...[2]string) string {
	t.Helper()
	var buf bytes.Buffer
	w := shard.NewWriter(&buf)
	for i, e := range entries {
		files := []shard.File{{Ext: "png", Data: picture(t, i)}}
		if strings.HasSuffix(e[0], "broken") {
			files[0].Data = []byte("<html>")
		}
		if e[1] != "" {
			files = append(files, shard.File{Ext: "cls", Data: []byte(e[1])})
		}
		must.Get(w.Write(e[0], files...))(t)
	}
	must.Do(t, w.Close())
	return textFile(t, buf.String())
}

func TestReadClassed(t *testing.T) {
	for _, c := range []struct {
		name, classes string
		entries       [][2]string
		want          []int32
		problem       string
	}{
		{"numbers", "cat\ndog\n", [][2]string{{"a", "1"}, {"b", "0"}, {"c", "1"}}, []int32{1, 0, 1}, ""},
		{"a broken image between", "cat\ndog\n", [][2]string{{"a", "1"}, {"broken", "1"}, {"c", "0"}}, []int32{1, 0}, ""},
		{"the last class", "cat\ndog\n", [][2]string{{"a", "1"}}, []int32{1}, ""},
		{"one beyond", "cat\ndog\n", [][2]string{{"a", "0"}, {"b", "2"}}, nil, "b.png in file:"},
		{"below 0", "cat\ndog\n", [][2]string{{"a", "-1"}}, nil, "for classes 0 to 1"},
		{"a name", "cat\ndog\n", [][2]string{{"a", "dog"}}, nil, `it is "dog", want a whole number`},
		{"one has none", "cat\ndog\n", [][2]string{{"a", "0"}, {"b", ""}}, nil, "write its number into key.cls"},
		{"all have none", "cat\ndog\n", [][2]string{{"a", ""}, {"b", ""}}, nil, "key.cls beside it, "},
		{"folders by name", "tabby cat, cat\ndog\nfish\n", [][2]string{{"x/dog/a", ""}, {"x/Tabby_cat/a", ""}}, []int32{1, 0}, ""},
		{"folders by order", "tench\ngoldfish\n", [][2]string{{"val/n01443537/a", ""}, {"val/n01440764/a", ""}}, []int32{1, 0}, ""},
		{"too few folders", "tench\ngoldfish\nshark\n", [][2]string{{"n01443537/a", ""}, {"n01440764/a", ""}}, nil, "there are 2 folders"},
		{"no image", "cat\n", nil, nil, "hold no image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			classes := must.Get(dataset.ReadClasses(textFile(t, c.classes)))(t)
			data, of, err := dataset.ReadClassed(t.Context(), []string{classedTar(t, c.entries...)}, classes)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want %q", err, c.problem)
				}
				return
			}
			must.Do(t, err)
			if !slices.Equal(of, c.want) || data.Images() != len(c.want) {
				t.Errorf("classes %v of %d images, want %v", of, data.Images(), c.want)
			}
			if broken := data.Totals().Problems[shard.ReasonImage]; broken != len(c.entries)-len(c.want) {
				t.Errorf("%d broken images are counted", broken)
			}
		})
	}
}
