package plans_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// picture is a column of Hugging Face's type Image.
type picture struct {
	Bytes []byte `parquet:"bytes,optional"`
	Path  string `parquet:"path,optional"`
}

type single struct {
	Image   picture `parquet:"image,optional"`
	Caption string  `parquet:"caption,optional"`
}

type listed struct {
	Jpg      []byte   `parquet:"jpg"`
	Captions []string `parquet:"captions,list"`
}

func write[T any](t *testing.T, rows ...T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	must.Do(t, parquet.WriteFile(path, rows))
	return path
}

const png = "\x89PNG\x0D\x0A\x1A\x0A pixels"

// found returns what a producer finds in tars.
func found(t *testing.T, dir string) (pairs, problems []string) {
	t.Helper()
	must.Get(shard.Scan(t.Context(), []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error {
			for _, c := range ex.Captions {
				pairs = append(pairs, fmt.Sprintf("%s %d %s", ex.Key, ex.Image.Size, c))
			}
			return nil
		},
		Problem: func(p shard.Problem) error { problems = append(problems, string(p.Reason)); return nil },
	}))(t)
	return pairs, problems
}

func TestPack(t *testing.T) {
	first := write(t, single{picture{Bytes: []byte(png)}, "a cat"}, single{picture{Bytes: []byte("\xff\xd8\xff jpeg")}, "a dog"}, single{Caption: "lost"}, single{Image: picture{Bytes: []byte(png + "2")}})
	second := write(t, single{picture{Bytes: []byte(png + "333")}, "a cow"})
	dir := filepath.Join(t.TempDir(), "images")
	columns := table.PictureColumns{Image: "image", Caption: "caption"}
	must.Do(t, plans.Pack(t.Context(), []string{first, second}, dir, columns))
	pairs, problems := found(t, dir)
	if want := []string{"000000000 15 a cat", "000000001 8 a dog", "000000004 18 a cow"}; !slices.Equal(pairs, want) || len(problems) != 2 {
		t.Errorf("pairs %q, want %q; problems %q", pairs, want, problems)
	}

	// What is complete stays as it is; what is missing is the same again.
	before := must.Get(os.ReadFile(filepath.Join(dir, "00001.tar")))(t)
	must.Do(t, os.Remove(filepath.Join(dir, "00001.tar")))
	must.Do(t, plans.Pack(t.Context(), []string{first, second}, dir, columns))
	if again, err := os.ReadFile(filepath.Join(dir, "00001.tar")); err != nil || string(again) != string(before) {
		t.Errorf("the second tar is another one when it is made again (%v)", err)
	}

	lists := filepath.Join(t.TempDir(), "lists")
	must.Do(t, plans.Pack(t.Context(), []string{write(t, listed{[]byte(png), []string{"one", "two"}}, listed{[]byte(png + "2"), nil})}, lists, table.PictureColumns{Image: "jpg", Caption: "captions"}))
	pairs, problems = found(t, lists)
	if want := []string{"000000000 15 one", "000000000 15 two"}; !slices.Equal(pairs, want) || len(problems) != 1 {
		t.Errorf("pairs %q, want %q; problems %q", pairs, want, problems)
	}
}

// TestPackRefuses has a good file before one that is refused. Nothing is written.
func TestPackRefuses(t *testing.T) {
	good := write(t, single{picture{Bytes: []byte(png)}, "a cat"})
	for name, tt := range map[string]struct{ path, want string }{
		"addresses":    {"", "pairstream fetch"},
		"no images":    {write(t, struct{ Caption string }{"a"}), "--image-col"},
		"no captions":  {write(t, struct{ Image []byte }{[]byte(png)}), "--caption-col"},
		"no such file": {filepath.Join(t.TempDir(), "none.parquet"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := plans.Pack(t.Context(), []string{good, tt.path}, dir, table.PictureColumns{Image: "Image", Caption: "Caption"})
			if name == "addresses" { // as lists write it
				err = plans.Pack(t.Context(), []string{good, write(t, struct {
					URL string `parquet:"url"`
				}{"https://example.com/a.jpg"})}, dir, table.PictureColumns{Image: "image", Caption: "caption"})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%d files are left", len(left))
			}
		})
	}
}
