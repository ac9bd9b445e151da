package ingest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// example returns the block of docs/ingest.md in a language, with the address of a door.
func (d *frontDoor) example(language string) string {
	d.t.Helper()
	page := must.Get(os.ReadFile("../../../docs/ingest.md"))(d.t)
	_, block, found := strings.Cut(string(page), "\n```"+language+"\n")
	block, _, ended := strings.Cut(block, "```\n")
	if !found || !ended {
		d.t.Fatalf("docs/ingest.md has no block in %s", language)
	}
	return strings.ReplaceAll(block, "http://127.0.0.1:8091", d.address)
}

// in runs a program in a folder that has what the examples read.
func (d *frontDoor) in(program string, args ...string) string {
	d.t.Helper()
	dir := d.t.TempDir()
	for name, content := range map[string]string{"cat.jpg": string(picture(1)), "pairs.jsonl": object(picture(2), `"caption":"two"`) + "\n" + object(picture(3), `"caption":"three"`)} {
		must.Do(d.t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cmd := exec.CommandContext(d.t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// TestCurlOfThePage runs the lines of the page, except the one whose URL is on the internet.
func TestCurlOfThePage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	d := open(t, nil)
	for line := range strings.Lines(d.example("sh")) {
		if strings.Contains(line, "https://") {
			continue
		}
		var got answer
		if out := d.in("sh", "-c", line); json.Unmarshal([]byte(out), &got) != nil || len(got.Pairs) == 0 || len(got.Errors) > 0 {
			t.Errorf("%s: %s", line, out)
		}
	}
	pairs, _ := d.published()
	cat := schemas.NewPairID(schemas.NewImageID(picture(1)), "a cat on a sofa").String()
	if p := pairs[cat]; p == nil || p.Meta["width"] != int64(640) || len(pairs) != 3 {
		t.Errorf("%d pairs are on the log, and the cat is %+v", len(pairs), p)
	}
}

func TestJavaScriptOfThePage(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node.js is not installed")
	}
	d := open(t, nil)
	script := filepath.Join(t.TempDir(), "publish.mjs")
	must.Do(t, os.WriteFile(script, []byte(d.example("js")), 0o600))
	cat := schemas.NewPairID(schemas.NewImageID(picture(1)), "a cat on a sofa").String()
	out := d.in("node", script)
	if pairs, _ := d.published(); pairs[cat] == nil || pairs[cat].Source != "https://example.org/cat.html" || !strings.Contains(out, "pairs") {
		t.Errorf("it prints %s, and the cat is %+v", out, pairs[cat])
	}
}
