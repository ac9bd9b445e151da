package batches

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func writeAll(w io.Writer, p []byte) error {
	_, err := w.Write(p)
	return err
}

// TestPlanOfStrangeInput: what is no data set is an error that names the remedy, and the next try in the same folder
// works.
func TestPlanOfStrangeInput(t *testing.T) {
	t.Parallel()
	in, o, environ := setUp(t, 8)
	raw := must.Get(os.ReadFile(in("scenes/00000.tar")))(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	must.Do(t, errors.Join(writeAll(z, raw), z.Close()))
	for _, dir := range []string{"loose", "broken"} {
		must.Do(t, os.Mkdir(in(dir), 0o700))
	}
	for name, content := range map[string][]byte{"loose/a.jpg": {1}, "loose/a.txt": []byte("a"), "file": {1}, "broken/a.tar": raw, "broken/b.tar": raw[:700], "a.parquet": raw[:700], "scenes.tar.gz": zipped.Bytes()} {
		must.Do(t, os.WriteFile(in(name), content, 0o600))
	}
	var junk bytes.Buffer
	w := tar.NewWriter(&junk)
	for _, name := range []string{"a.jpg", "a.txt", "b.jpg", "b.txt"} {
		content := []byte("no image: " + name)
		must.Do(t, errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}), writeAll(w, content)))
	}
	must.Do(t, errors.Join(w.Close(), os.WriteFile(in("junk.tar"), junk.Bytes(), 0o600)))
	for _, c := range []struct {
		name, source, out, want string
	}{
		{"a compressed tar", in("scenes.tar.gz"), in("plan"), "has no pairs: file://" + in("scenes.tar.gz")},
		{"images that are none", in("junk.tar"), in("plan"), "there is no mini-batch, as no pair is usable: set aside 2, the first by: unusable image: "},
		{"images in a folder", in("loose"), in("plan"), "files of a folder go into one with `tar --sort=name -cf data.tar -C FOLDER .`"},
		{"a Parquet file that is none", in("a.parquet"), in("plan"), in("a.parquet") + ": reading Parquet: "},
		{"an address", "https://example.org/a.tar", in("plan"), `scheme "https"`},
		{"a file for a folder", in("scenes"), in("file"), "--out is \"" + in("file") + "\", want a folder"},
	} {
		strange := o
		strange.Sources, strange.Out = []string{c.source}, c.out
		wantError(t, c.name, c.want, strange, environ)
	}
	broken := o
	broken.Sources = []string{in("broken")}
	if out := must.Get(plan(t, broken, environ))(t); !strings.Contains(out, "set aside 1, the first by: tar cut: ") {
		t.Errorf("a plan of a tar that is cut prints\n%s", out)
	}
	wantError(t, "a folder with another plan", "want another folder, or remove this one", o, environ)
	if left, err := filepath.Glob(in("plan/work")); err != nil || left != nil {
		t.Errorf("%q is left (%v)", left, err)
	}
}
