package schemas

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// The Python package's records are made from the record types, as asyncapi.yaml is: the text, the schema and the fields
// of every dataclass, the table of records, the limits, the topics, and the msgpack types that the codec accepts. What
// follows the fields is Python's own: the checks beyond the types, and what a record computes.
const pythonDir = "../clients/python/src/pairstream/"

// pythonLimits are the constants of a Python module.
var pythonLimits = map[string]map[string]int{
	"records.py": {
		"MAX_CAPTION_BYTES": MaxCaptionBytes, "MAX_IMAGE_BYTES": MaxImageBytes, "MAX_URI_BYTES": MaxURIBytes, "MAX_NAME_BYTES": MaxNameBytes,
		"MAX_DIM": MaxDim, "MAX_COLUMN_NAME": MaxColumnName, "MAX_COLUMN_TEXT": MaxColumnText, "MAX_COLUMNS_BYTES": MaxColumnsBytes,
		"CHUNK_MEMBERS": ChunkMembers, "MAX_ASKED": MaxAsked, "MAX_NEAR": MaxNear,
	},
	"wire.py": {
		"MAX_DEPTH": maxDepth, "MAX_UNKNOWN_VALUES": maxUnknownValues, "MAX_OPEN_KEYS": maxOpenKeys, "MAX_VALUE_BYTES": maxValueBytes,
		"MAX_BATCH": MaxBatch, "MAX_NOUNS": MaxNouns, "MAX_MEASURES": MaxMeasures, "MAX_COLUMNS": MaxColumns,
	},
}

// pythonDefaults are fields that always travel, and that a writer in Python may leave out.
var pythonDefaults = map[string]string{"ImageRef.offset": "0", "Seal.final": "False", "Sample.replaced": "False"}

func TestPythonIsMadeFromTheRecordTypes(t *testing.T) {
	p := &python{document: &document{t: t, comments: readComments(t)}}
	compareMade(t, pythonDir+"records.py", p.records)
	compareMade(t, pythonDir+"wire.py", p.wire)
	compareMade(t, pythonDir+"topics.py", p.topics)
}

// compareMade compares a file with its generated text, or writes it anew.
func compareMade(t *testing.T, path string, make func(old string) string) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	want := []byte(make(string(old)))
	if *rewrite {
		must.Do(t, os.WriteFile(path, want, 0o644))
		return
	}
	if bytes.Equal(old, want) {
		return
	}
	gotLines, wantLines := strings.Split(string(old), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d says %q, the code %q; write it with go test ./schemas -rewrite", path, i+1, gotLines[i], wantLines[i])
		}
	}
	t.Fatalf("%s has %d lines, want %d; write it with go test ./schemas -rewrite", path, len(gotLines), len(wantLines))
}

// python writes the parts of the Python package that are made.
type python struct{ *document }

// replace replaces what the pattern's first group matches, which must be there once.
func (p *python) replace(text, pattern, with string) string {
	p.t.Helper()
	at := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, -1)
	if len(at) != 1 {
		p.t.Fatalf("the Python module matches %q %d times, want once: where is this part of it?", pattern, len(at))
	}
	return text[:at[0][2]] + with + text[at[0][3]:]
}

func (p *python) limits(module, text string) string {
	for _, name := range slices.Sorted(maps.Keys(pythonLimits[module])) {
		text = p.replace(text, `(?m)^`+name+` = ([0-9_<> ]*[0-9])`, decimal(pythonLimits[module][name]))
	}
	return text
}

// decimal writes a number as Python does with an underscore before every three digits.
func decimal(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}

func (p *python) records(text string) string {
	text = p.limits("records.py", text)
	types, made := []reflect.Type{}, map[string]bool{}
	for _, schema := range recordOrder() {
		types = append(types, recordTypeByName(schema))
	}
	names := []string{}
	for _, t := range types {
		names = append(names, t.Name())
	}
	text = p.replace(text, `r\.SCHEMA: r for r in \(([A-Za-z, ]*)\)`, strings.Join(names, ", "))
	for len(types) > 0 { // and the structs that the records hold
		t := types[0]
		types = types[1:]
		if made[t.Name()] {
			continue
		}
		made[t.Name()] = true
		body, held := p.class(t)
		types = append(types, held...)
		text = p.replace(text, `\nclass `+t.Name()+`(?:\([A-Za-z]*\))?:\n((?s:.*?))(?:\n    @property\n|\n    def |\n\n@dataclass)`, body)
	}
	return text
}

// recordOrder returns the schemas in the order of the topics that carry them.
func recordOrder() (schemas []string) {
	for _, topic := range Catalogue() {
		for _, schema := range topic.Schemas {
			if !slices.Contains(schemas, schema) {
				schemas = append(schemas, schema)
			}
		}
	}
	return schemas
}

// class returns the text, the schema and the fields of a dataclass, and the structs that the fields hold.
func (p *python) class(t reflect.Type) (body string, held []reflect.Type) {
	var b strings.Builder
	text := p.comment(t.Name())
	if lines := wrapWords(`"""`+text, "    "); len(lines) == 1 && len(lines[0]) < pythonWidth-3 {
		b.WriteString(lines[0] + "\"\"\"\n\n")
	} else {
		b.WriteString(strings.Join(lines, "\n") + "\n    \"\"\"\n\n")
	}
	if r, ok := reflect.TypeAssert[Record](reflect.New(t)); ok {
		fmt.Fprintf(&b, "    SCHEMA: ClassVar[str] = %q\n", r.Schema())
		if embedded := shapeOf(t).inlined; embedded != "" {
			fmt.Fprintf(&b, "    RESERVED_KEY: ClassVar[bytes] = b%q\n", embedded)
		}
		b.WriteString("\n")
	}
	for f := range t.Fields() {
		if f.Anonymous {
			held = append(held, f.Type)
			continue
		}
		key, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		hint, zero, of := p.hint(t, f, key)
		if of != nil {
			held = append(held, of)
		}
		value := ""
		if option == "omitempty" {
			value = " = _optional(" + zero + ")"
		} else if d := pythonDefaults[t.Name()+"."+key]; d != "" {
			value = " = " + d
		}
		line := "    " + key + ": " + hint + value
		if comment := "  # " + p.comment(t.Name()+"."+f.Name); len(line)+len(comment) <= pythonWidth {
			b.WriteString(line + comment + "\n")
			continue
		}
		b.WriteString(strings.Join(wrapWords("# "+p.comment(t.Name()+"."+f.Name), "    # "), "\n") + "\n" + line + "\n")
	}
	return b.String(), held
}

const pythonWidth = 120

// wrapWords breaks a text into lines. All begin with the indent, but that of the first ends where its text begins alike.
func wrapWords(text, indent string) (lines []string) {
	line := strings.TrimSuffix(indent, "# ")
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > pythonWidth:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// hint returns the Python type of a field, what stands for it where it is left out, and the struct that it holds.
func (p *python) hint(in reflect.Type, f reflect.StructField, key string) (hint, zero string, held reflect.Type) {
	t := f.Type
	switch t {
	case reflect.TypeFor[PairID](), reflect.TypeFor[ImageID]():
		return "Id", `b""`, nil
	case reflect.TypeFor[Columns]():
		return "Columns", "dict", nil
	case reflect.TypeFor[Measures]():
		return "dict[str, Float64]", "dict", nil
	case reflect.TypeFor[Int32s](), reflect.TypeFor[Floats32](), reflect.TypeFor[Float16s]():
		return t.Name(), "_" + strings.ToLower(t.Name()), nil
	case reflect.TypeFor[[]byte]():
		limit := limits[in.Name()+"."+key]
		switch {
		case strings.HasPrefix(p.comment(in.Name()+"."+f.Name), "16 bytes a"):
			return "Ids", "_ids", nil
		case slices.ContainsFunc(limit, func(e entry) bool { return e.key == "x-bytes" }):
			return "Digest", `b""`, nil
		}
		return "Blob", `b""`, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return t.Elem().Name() + " | None", "None", t.Elem()
	case reflect.Struct:
		return t.Name(), "", t
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "list[str]", "list", nil
		}
		return "list[" + t.Elem().Name() + "]", "list", t.Elem()
	case reflect.String:
		return "str", `""`, nil
	case reflect.Bool:
		return "bool", "False", nil
	case reflect.Float32, reflect.Float64:
		return camelType(t), "0.0", nil
	case reflect.Int32, reflect.Int64:
		return camelType(t), "0", nil
	}
	p.t.Fatalf("%s.%s: Python has no type for %s", in, f.Name, t)
	return "", "", nil
}

func camelType(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// wire writes which classes of msgpack values a field accepts, as shape.accepts says.
func (p *python) wire(text string) string {
	classes := map[Class]string{
		ClassNil: "NIL", ClassBool: "BOOL", ClassInt: "INT", ClassBigUint: "BIG_UINT", ClassFloat32: "FLOAT32", ClassFloat64: "FLOAT64",
		ClassString: "STRING", ClassBytes: "BYTES", ClassArray: "ARRAY", ClassMap: "MAP", ClassExtension: "EXTENSION",
	}
	var b strings.Builder
	for _, k := range []struct {
		kind kind
		name string
	}{
		{kindBool, "BOOL"},
		{kindInt32, "INT32"},
		{kindInt64, "INT64"},
		{kindFloat32, "FLOAT32"},
		{kindFloat64, "FLOAT64"},
		{kindString, "STRING"},
		{kindBytes, "BYTES"},
		{kindBytes, "COLUMN"},
		{kindList, "LIST"},
		{kindMap, "MAP"},
		{kindStruct, "STRUCT"},
		{kindScalar, "SCALAR"},
	} {
		fmt.Fprintf(&b, "    Kind.%s: (", k.name)
		accepted := []string{}
		for _, c := range slices.Sorted(maps.Keys(classes)) {
			if (&shape{kind: k.kind}).accepts(c) {
				accepted = append(accepted, "Class."+classes[c])
			}
		}
		b.WriteString(strings.Join(accepted, ", "))
		if len(accepted) == 1 {
			b.WriteString(",")
		}
		b.WriteString("),\n")
	}
	return p.replace(p.limits("wire.py", text), `\n_ACCEPTS = \{\n((?s:.*?))\}\n`, b.String())
}

func (p *python) topics(text string) string {
	var numbered []string
	var b strings.Builder
	for _, topic := range Catalogue() {
		name := strings.ToUpper(strings.ReplaceAll(string(topic.Topic), "-", "_"))
		fmt.Fprintf(&b, "%s = %q\n", name, topic.Topic)
		if topic.Lane && topic.Topic != Pairs {
			numbered = append(numbered, name)
		}
	}
	text = p.replace(text, `\n\n((?:[A-Z_]+ = "[a-z-]+"\n)+)\n# What a stage writes`, b.String())
	return p.replace(text, `\nSEQUENCED = frozenset\(\{([A-Z_, ]*)\}\)\n`, strings.Join(numbered, ", "))
}
