package schemas

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

var rewrite = flag.Bool("rewrite", false, "write the golden bytes, the fuzz seeds, asyncapi.yaml and Python's records anew; review the difference")

// goldenDir holds the bytes of every fixture as major version 1 writes them. A file there is a promise: it decodes to
// the same record for ever. Another major version gets a folder of its own beside it.
const goldenDir = "testdata/golden/v1"

// writeGolden writes a golden file: a line with the schema, then the bytes in lines of 32.
func writeGolden(t *testing.T, name, schema string, value []byte) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, schema)
	for line := range slices.Chunk(value, 32) {
		fmt.Fprintln(&b, hex.EncodeToString(line))
	}
	must.Do(t, os.MkdirAll(goldenDir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(goldenDir, name+".hex"), []byte(b.String()), 0o644))
}

func readGolden(t *testing.T, path string) (schema string, value []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	schema, digits, _ := strings.Cut(string(text), "\n")
	value, err = hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return schema, value
}

func TestGoldenBytes(t *testing.T) {
	want := fixtures()
	if *rewrite {
		for name, r := range want {
			writeGolden(t, name, r.Schema(), mustMarshal(t, r))
		}
	}
	paths, err := filepath.Glob(goldenDir + "/*.hex")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files in %s (%v); write them with go test -rewrite", goldenDir, err)
	}
	schemas := map[string]bool{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".hex")
		t.Run(name, func(t *testing.T) {
			schema, value := readGolden(t, path)
			schemas[schema] = true
			got := must.Get(Unmarshal(schema, value))(t)
			if !reflect.DeepEqual(got, want[name]) {
				t.Errorf("decoded\n%+v\nwant\n%+v", got, want[name])
			}
			if again := mustMarshal(t, got); !bytes.Equal(again, value) {
				t.Errorf("encoded again\n%x\nwant\n%x", again, value)
			}
		})
		delete(want, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("fixture %s has no golden bytes; write them with go test -rewrite", name)
	}
	for schema := range recordTypes {
		if !schemas[schema] {
			t.Errorf("%s has no golden bytes", schema)
		}
	}
}
