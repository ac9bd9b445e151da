package schemas

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// A refused or accepted value may cost this much memory. An empty map of one byte stands for a Sample at most, which
// the decoder makes twice when it grows a slice.
const (
	allocPerByte = 2*uint64(reflectSampleSize) + 64
	allocFixed   = 1 << 18
)

const reflectSampleSize = 144 // bytes of a Sample, rounded up; checked in TestSampleSize

func TestSampleSize(t *testing.T) {
	if size := reflect.TypeFor[Sample]().Size(); size > reflectSampleSize {
		t.Errorf("a Sample has %d bytes, want at most %d", size, reflectSampleSize)
	}
}

// fuzzRecord checks any value: no panic, bounded memory, a record or an error but not both. If there is a record, its
// encoding decodes to the same record and encodes to the same bytes again.
func fuzzRecord(f *testing.F, schema string) {
	f.Fuzz(func(t *testing.T, value []byte) {
		var got Record
		var err error
		if allocated, most := allocatedBy(func() { got, err = Unmarshal(schema, value) }), allocPerByte*uint64(len(value))+allocFixed; allocated > most {
			t.Errorf("%d bytes allocated for a value of %d bytes, want at most %d", allocated, len(value), most)
		}
		if (got == nil) == (err == nil) {
			t.Fatalf("record %v with error %v", got, err)
		}
		id, found := PairIDOf(value)
		if p, ok := got.(*Pair); ok && (!found || id != p.ID) {
			t.Fatalf("the id of the pair is read as %s, want %s", id, p.ID)
		}
		if err != nil {
			if len(err.Error()) > 4096 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		canonical := mustMarshal(t, got)
		again, err := Unmarshal(schema, canonical)
		if err != nil {
			t.Fatalf("decoding %x, which was encoded from %+v: %v", canonical, got, err)
		}
		if second := mustMarshal(t, again); !bytes.Equal(second, canonical) {
			t.Fatalf("encoded\n%x\nthen\n%x", canonical, second)
		}
	})
}

func FuzzPair(f *testing.F)          { fuzzRecord(f, SchemaPair) }
func FuzzSeal(f *testing.F)          { fuzzRecord(f, SchemaSeal) }
func FuzzEmbedding(f *testing.F)     { fuzzRecord(f, SchemaEmbedding) }
func FuzzNeighborChunk(f *testing.F) { fuzzRecord(f, SchemaNeighborChunk) }
func FuzzGroup(f *testing.F)         { fuzzRecord(f, SchemaGroup) }
func FuzzBatch(f *testing.F)         { fuzzRecord(f, SchemaBatch) }
func FuzzScoredBatch(f *testing.F)   { fuzzRecord(f, SchemaScoredBatch) }
func FuzzRefusal(f *testing.F)       { fuzzRecord(f, SchemaRefusal) }
func FuzzFeatureBlock(f *testing.F)  { fuzzRecord(f, SchemaFeatureBlock) }
func FuzzProgress(f *testing.F)      { fuzzRecord(f, SchemaProgress) }
func FuzzJudgement(f *testing.F)     { fuzzRecord(f, SchemaJudgement) }

// fuzzTarget returns the name of a record's target: FuzzScoredBatch for pairstream.scored_batch/1.
func fuzzTarget(r Record) string { return "Fuzz" + reflect.TypeOf(r).Elem().Name() }

// seeds returns the values with which the search starts. They are every fixture and, for each type of record, the
// tricks that the walker has to see through.
func seeds(t *testing.T) map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for name, r := range fixtures() {
		target, value := fuzzTarget(r), mustMarshal(t, r)
		if len(value) > 4096 { // a mutator does nothing useful with it
			continue
		}
		if out[target] == nil {
			out[target] = map[string][]byte{
				"not-msgpack":     []byte(`{"id": 1}`),
				"huge-map":        []byte("\xdf\xff\xff\xff\xff"),
				"extension":       []byte("\x81\xa1x\xd4\x01\x02"),
				"duplicate-key":   []byte("\x82\xa1x\x01\xa1x\x01"),
				"deep":            append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x91}, 64)...),
				"empty":           {},
				"map-without-key": []byte("\x80"),
			}
		}
		out[target][name] = value
		out[target][name+"-cut"] = value[:len(value)*2/3]
		out[target][name+"-trailing"] = append(bytes.Clone(value), 0xc0)
	}
	out["FuzzBatch"]["huge-samples"] = []byte("\x81\xa7samples\xdd\xff\xff\xff\xff")
	out["FuzzBatch"]["empty-samples"] = append([]byte("\x81\xa7samples\xdc\x04\x00"), bytes.Repeat([]byte{0x80}, 1024)...)
	out["FuzzScoredBatch"]["reserved-key"] = []byte("\x81\xa5Batch\xc0")
	out["FuzzGroup"]["huge-nouns"] = []byte("\x81\xa5nouns\xdd\xff\xff\xff\xff")
	out["FuzzPair"]["huge-inline"] = []byte("\x81\xa6inline\xc6\xff\xff\xff\xff")
	out["FuzzProgress"]["huge-values"] = []byte("\x81\xa6values\xdf\xff\xff\xff\xff")
	return out
}

// TestFuzzSeedsAreThere checks that every target has its seeds in the repository. Without them the search starts from
// nothing and nobody sees it.
func TestFuzzSeedsAreThere(t *testing.T) {
	for target, values := range seeds(t) {
		dir := filepath.Join("testdata/fuzz", target)
		for name, value := range values {
			text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", value)
			path := filepath.Join(dir, name)
			if *rewrite {
				must.Do(t, os.MkdirAll(dir, 0o755))
				must.Do(t, os.WriteFile(path, []byte(text), 0o644))
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s is not as expected (%v); write it with go test -rewrite", path, err)
			}
		}
	}
	source := must.Get(os.ReadFile("fuzz_test.go"))(t)
	for schema, rt := range recordTypes {
		target := fuzzTarget(rt.make())
		if !strings.Contains(string(source), "func "+target+"(") {
			t.Errorf("%s has no fuzz target %s", schema, target)
		}
		if entries, err := os.ReadDir(filepath.Join("testdata/fuzz", target)); err != nil || len(entries) == 0 {
			t.Errorf("%s has no seeds: %v", target, err)
		}
	}
}
