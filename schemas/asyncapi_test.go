package schemas

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// asyncapi.yaml is made from the record types. Names come from the struct tags, types from reflection, descriptions
// from the comments in the source, and limits from the constants that Validate uses. So it cannot differ from the code.
// What the code does not say about topics is below and in testdata/asyncapi/info.md.

// topicTexts says for every topic what it is for.
var topicTexts = map[Topic]string{
	Pairs: "What the crawl found: an image, as a reference or inline, and one caption. An image with five captions is five pairs. " +
		"A seal closes the open group of its lane; publish one to each lane at the end of a finite crawl. The only topic that outside programs write.",
	Embeddings: "Every pair with the unit vectors of its image and of its caption, in the order of the pairs.",
	Neighbors: "What the indexer found for the members of a group, 1,024 members a record and in order. The group's manifest in topic " +
		"groups follows the last of them.",
	Groups:      "The manifest of each group that is complete.",
	Batches:     "The mini-batches of each epoch of each group in training order, with the hardest candidates of every sample.",
	Scored:      "The mini-batches, with the probability that each candidate is a match after all.",
	Features:    "What the training model made of the samples of each mini-batch, in training order.",
	ProgressLog: "Reports of the trainer and of evaluations. Several programs write here, and the records have no seq.",
	Control: "Decisions of operators, and which dead letters were put back. It is compacted: retention does not reach it. " +
		"Readers of a lane follow the skips in it.",
	Sources:    "What producers have published of every tar, and where it lies, so that none is published twice. It is compacted.",
	Forgotten:  "Tombstones: images, pairs and addresses to forget. No stage trains on them and no page shows them any more. It is compacted.",
	Judgements: "What people say of connections, in the console. The guard of connections counts it.",
	DeadLetters: "Records that a stage could not process: the value and the headers are those of the original, with the headers " +
		"below besides. The same record may be there twice; topic, lane and offset tell.",
}

// limits are what Validate checks beyond the types, by Go type and key.
var limits = map[string]node{
	"ImageRef.uri":           {{"minLength", 1}, {"x-max-bytes", MaxURIBytes}},
	"ImageRef.offset":        {{"minimum", 0}},
	"ImageRef.size":          {{"minimum", 1}, {"maximum", MaxImageBytes}},
	"Pair.inline":            {{"x-max-bytes", MaxImageBytes}},
	"Pair.caption":           {{"minLength", 1}, {"x-max-bytes", MaxCaptionBytes}},
	"Pair.source":            {{"x-max-bytes", MaxURIBytes}},
	"Pair.meta":              {{"maxProperties", MaxColumns}, {"x-max-bytes", MaxColumnsBytes}},
	"Seal.repeats":           {{"minimum", 0}},
	"Seal.id":                {{"x-max-bytes", MaxNameBytes}},
	"Seal.note":              {{"x-max-bytes", MaxCaptionBytes}},
	"Embedding.caption":      {{"minLength", 1}, {"x-max-bytes", MaxCaptionBytes}},
	"Embedding.v":            {{"x-max-bytes", 2 * MaxDim}},
	"Embedding.t":            {{"x-max-bytes", 2 * MaxDim}},
	"Embedding.model":        {{"minLength", 1}, {"x-max-bytes", MaxNameBytes}},
	"GroupID.lane":           {{"minimum", 0}},
	"GroupID.seq":            {{"minimum", 0}},
	"NeighborChunk.start":    {{"minimum", 0}, {"multipleOf", ChunkMembers}},
	"NeighborChunk.ids":      {{"x-max-bytes", 16 * ChunkMembers}},
	"NeighborChunk.k":        {{"minimum", 0}},
	"NeighborChunk.k1":       {{"minimum", 0}},
	"Group.first_seq":        {{"minimum", 0}},
	"Group.end_seq":          {{"minimum", 1}},
	"Group.count":            {{"minimum", 1}},
	"Group.duplicates":       {{"minimum", 0}},
	"Group.repeats":          {{"minimum", 0}},
	"NeighborChunk.near":     {{"x-max-bytes", 16 * MaxNear * ChunkMembers}},
	"NeighborChunk.out_near": {{"x-max-bytes", 16 * MaxNear * ChunkMembers}},
	"Group.scope":            {{"enum", []any{ScopeLane, ScopeCrawl}}},
	"NeighborChunk.copy_uri": {{"x-max-bytes", MaxURIBytes}},
	"NeighborChunk.copy_ids": {{"x-max-bytes", 16 * ChunkMembers}},
	"Group.same_image":       {{"minimum", 0}},
	"Group.near":             {{"minimum", 0}},
	"Group.left_out":         {{"minimum", 0}},
	"Group.chunks":           {{"minimum", 1}},
	"Group.dim":              {{"minimum", 1}, {"maximum", MaxDim}},
	"Group.clusters":         {{"minimum", 1}},
	"Group.nouns":            {{"maxItems", MaxNouns}},
	"Group.model":            {{"minLength", 1}, {"x-max-bytes", MaxNameBytes}},
	"Group.closed":           {{"enum", []any{ClosedByCount, ClosedBySeal, ClosedByModel}}},
	"Group.k":                {{"minimum", 0}},
	"Group.k1":               {{"minimum", 0}},
	"Group.k2":               {{"minimum", 0}},
	"Group.p":                {{"minimum", 0}, {"maximum", 1}},
	"Group.min_count":        {{"minimum", 0}},
	"Group.modality":         {{"enum", []any{ModalityImage, ModalityText}}},
	"Group.digest":           {{"x-bytes", 32}},
	"Sample.text":            {{"minLength", 1}, {"x-max-bytes", MaxCaptionBytes}},
	"Sample.position":        {{"minimum", 0}},
	"Batch.epoch":            {{"minimum", 0}},
	"Batch.sequence":         {{"minimum", 0}},
	"Batch.batches":          {{"minimum", 1}},
	"Batch.strategy":         {{"enum", []any{StrategyRandom, StrategyGRIT, StrategyGNS, StrategyJEST, StrategyB3, StrategyOwn}}},
	"Batch.samples":          {{"minItems", 1}, {"maxItems", MaxBatch}},
	"Batch.m":                {{"minimum", 0}},
	"ScoredBatch.model":      {{"minLength", 1}, {"x-max-bytes", MaxNameBytes}},
	"Check.positives":        {{"minimum", 0}},
	"Check.auc":              {{"minimum", 0}, {"maximum", 1}},
	"Check.least":            {{"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}},
	"ScoredBatch.high":       {{"minimum", 0}, {"maximum", 1}},
	"Precision.above":        {{"minimum", 0}, {"maximum", 1}},
	"Precision.value":        {{"minimum", 0}, {"maximum", 1}},
	"Precision.low":          {{"minimum", 0}, {"maximum", 1}},
	"Precision.high":         {{"minimum", 0}, {"maximum", 1}},
	"Precision.base":         {{"minimum", 0}, {"maximum", 1}},
	"Precision.confirmed":    {{"minimum", 0}, {"maximum", 1}},
	"Precision.candidates":   {{"minimum", 0}},
	"Precision.negatives":    {{"minimum", 0}},
	"Precision.judged":       {{"minimum", 0}},
	"Precision.right":        {{"minimum", 0}},
	"FeatureBlock.epoch":     {{"minimum", 0}},
	"FeatureBlock.sequence":  {{"minimum", 0}},
	"FeatureBlock.dim":       {{"minimum", 1}, {"maximum", MaxDim}},
	"FeatureBlock.step":      {{"minimum", 0}},
	"Judgement.probability":  {{"minimum", 0}, {"maximum", 1}},
	"Judgement.sample":       {{"enum", []any{SampleRandom, SampleMost, SampleLeast}}},
	"Judgement.model":        {{"x-max-bytes", MaxNameBytes}},
	"Judgement.verdict":      {{"enum", []any{VerdictMatch, VerdictNoMatch, VerdictNone}}},
	"Progress.kind":          {{"enum", []any{ProgressStep, ProgressEval, ProgressCheckpoint}}},
	"Progress.step":          {{"minimum", 0}},
	"Progress.values":        {{"maxProperties", MaxMeasures}},
	"Progress.checkpoint":    {{"x-max-bytes", MaxURIBytes}},
}

func TestAsyncAPI(t *testing.T) {
	d := &document{t: t, comments: readComments(t), types: map[string]node{}, unused: maps.Clone(limits)}
	var want bytes.Buffer
	want.WriteString("# Made from the record types by go test ./schemas -run AsyncAPI -rewrite; change those, not this.\n")
	writeYAML(&want, d.root(), 0)
	for key := range d.unused {
		t.Errorf("limits has %s, which is no key of a record", key)
	}
	compareMade(t, "asyncapi.yaml", func(string) string { return want.String() })
}

// document makes the tree of the document.
type document struct {
	t        *testing.T
	comments map[string]string // "Type" and "Type.Field"
	types    map[string]node   // components.schemas that are referred to
	unused   map[string]node
}

func (d *document) root() node {
	info := must.Get(os.ReadFile("testdata/asyncapi/info.md"))(d.t)
	channels, operations, messages := d.topics()
	schemaNames := slices.Sorted(maps.Keys(d.types))
	var components node
	for _, name := range schemaNames {
		components = append(components, entry{name, d.types[name]})
	}
	return node{
		{"asyncapi", "3.0.0"},
		{"info", node{
			{"title", "pairstream"},
			{"version", "1.0.0"},
			{"description", strings.TrimSpace(string(info))},
			{"license", node{{"name", "Apache-2.0"}, {"url", "https://www.apache.org/licenses/LICENSE-2.0"}}},
		}},
		{"defaultContentType", "application/msgpack"},
		{"servers", node{{"kafka", node{
			{"host", "{broker}"},
			{"protocol", "kafka"},
			{"description", "Any broker that speaks Kafka's protocol; setting KAFKA_BROKERS. With KAFKA_TLS the protocol is kafka-secure."},
			{"variables", node{{"broker", node{{"default", "localhost:9092"}}}}},
		}}}},
		{"channels", channels},
		{"operations", operations},
		{"components", node{{"messages", messages}, {"schemas", components}}},
	}
}

func (d *document) topics() (channels, operations, messages node) {
	seen := map[string]bool{}
	for _, topic := range Catalogue() {
		text := topicTexts[topic.Topic]
		if text == "" {
			d.t.Errorf("topicTexts has nothing on %s", topic.Topic)
		}
		id := camel(string(topic.Topic))
		var carried node
		for _, schema := range topic.Schemas {
			name := reflect.TypeOf(recordTypes[schema].make()).Elem().Name()
			message := snake(name)
			headers := "stageHeaders"
			if topic.Topic == Pairs || !topic.Lane {
				headers = "producerHeaders"
			}
			if schema == SchemaSeal && topic.Topic != Pairs {
				message = "seal_passed_on"
			}
			carried = append(carried, entry{message, node{{"$ref", "#/components/messages/" + message}}})
			if !seen[message] {
				seen[message] = true
				messages = append(messages, entry{message, d.message(schema, name, headers)})
			}
		}
		if topic.Topic.Compacted() {
			carried = node{{"note", node{{"$ref", "#/components/messages/note"}}}}
		}
		if topic.Topic == Control {
			messages = append(messages, entry{"note", note})
		}
		if topic.Topic == DeadLetters {
			carried = node{{"dead_letter", node{{"$ref", "#/components/messages/dead_letter"}}}}
			messages = append(messages, entry{"dead_letter", d.deadLetter()})
		}
		channels = append(channels, entry{id, channel(topic, text, carried)})
		action := "send"
		if topic.Topic == Pairs {
			action = "receive"
		}
		operations = append(operations, entry{action + strings.ToUpper(id[:1]) + id[1:], node{
			{"action", action},
			{"channel", node{{"$ref", "#/channels/" + id}}},
			{"summary", map[string]string{"receive": "pairstream reads what " + topic.WrittenBy + " write.", "send": "Written by: " + topic.WrittenBy + "."}[action]},
		}})
	}
	d.headers("stageHeaders", true)
	d.headers("producerHeaders", false)
	return channels, operations, messages
}

func channel(topic TopicInfo, text string, messages node) node {
	kafka := node{{"topic", string(topic.Topic)}}
	partitions := "the number of lanes (setting LANES), the same for all lane topics"
	if !topic.Lane {
		kafka = append(kafka, entry{"partitions", 1})
		partitions = "1"
	}
	policy := "delete"
	if topic.Topic.Compacted() {
		policy = "compact"
	}
	kafka = append(kafka, entry{"topicConfiguration", node{{"cleanup.policy", []any{policy}}}}, entry{"bindingVersion", "0.5.0"})
	return node{
		{"address", string(topic.Topic)},
		{"description", text},
		{"messages", messages},
		{"bindings", node{{"kafka", kafka}}},
		{"x-lane-topic", topic.Lane},
		{"x-partitions", partitions},
		{"x-written-by", topic.WrittenBy},
	}
}

func (d *document) message(schema, name, headers string) node {
	return node{
		{"name", schema},
		{"title", name},
		{"summary", d.comment(name)},
		{"contentType", "application/msgpack"},
		{"headers", node{{"allOf", []any{
			node{{"$ref", "#/components/schemas/" + headers}},
			node{{"type", "object"}, {"properties", node{{HeaderSchema, node{{"const", schema}}}}}},
		}}}},
		{"payload", d.ref(recordTypeByName(schema))},
		{"bindings", node{{"kafka", node{{"key", node{{"type", "null"}, {"description", "Keys are not used."}}}, {"bindingVersion", "0.5.0"}}}}},
		{"x-golden", goldenNames(schema)},
	}
}

func recordTypeByName(schema string) reflect.Type {
	return reflect.TypeOf(recordTypes[schema].make()).Elem()
}

// goldenNames are the files with examples of a record.
func goldenNames(schema string) []any {
	var out []any
	all := fixtures()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Schema() == schema {
			out = append(out, goldenDir+"/"+name+".hex")
		}
	}
	return out
}

// headers describes the headers of messages. All values are bytes, of ASCII text where there is a pattern.
func (d *document) headers(name string, stage bool) {
	properties := node{{HeaderSchema, node{{"type", "string"}, {"description", "Type of the value and its major version."}}}}
	required := []any{HeaderSchema}
	if stage {
		properties = append(properties,
			entry{HeaderSeq, node{{"type", "string"}, {"pattern", "^(0|[1-9][0-9]*)$"}, {"description", "Number of the record in its lane and topic, in decimal."}}},
			entry{HeaderSource, node{{"type", "string"}, {"format", "binary"}, {"description", "From where the stage reads its inputs to go on after this record. For stages only."}}})
		required = append(required, HeaderSeq)
	}
	d.types[name] = node{{"type", "object"}, {"required", required}, {"properties", properties}}
}

var deadLetterHeaders = []struct{ name, text string }{
	{"dl-topic", "Topic of the record, without the namespace."},
	{"dl-lane", "Its partition, in decimal."},
	{"dl-offset", "Its offset, in decimal."},
	{"dl-stage", "The stage that set it aside."},
	{"dl-reason", "Why: a few words up to the first colon, then the particulars."},
	{"dl-key", "The record's own key, if it had one."},
	{"dl-cut", "How many bytes the value had, if it did not fit and this is its beginning."},
}

// note is what the compacted topics hold.
var note = node{
	{"name", "note"},
	{"summary", "What is to be known for as long as the log is there. The last one of a key counts."},
	{"contentType", "application/json"},
	{"payload", node{{"type", "object"}}},
	{"bindings", node{{"kafka", node{{"key", node{{"type", "string"}, {"description", "KIND/..., such as skip/TOPIC/LANE/SEQ/OFFSET, the URI of a tar on sources, or KIND/ID on forgotten."}}}, {"bindingVersion", "0.5.0"}}}}},
}

func (d *document) deadLetter() node {
	var properties node
	for _, h := range deadLetterHeaders {
		properties = append(properties, entry{h.name, node{{"type", "string"}, {"description", h.text}}})
	}
	return node{
		{"name", "dead letter"},
		{"summary", "A record that was set aside: its bytes, untouched, and its own headers."},
		{"contentType", "application/octet-stream"},
		{"headers", node{{"type", "object"}, {"required", []any{"dl-topic", "dl-lane", "dl-offset", "dl-stage", "dl-reason"}}, {"properties", properties}}},
		{"payload", node{{"type", "string"}, {"format", "binary"}}},
		{"bindings", node{{"kafka", node{{"key", node{{"type", "string"}, {"description", "TOPIC/LANE/OFFSET of the record."}}}, {"bindingVersion", "0.5.0"}}}}},
	}
}

// TestDeadLetterHeadersAreThoseOfStream compares the headers of dead letters that are named here, for readers
// elsewhere, with those that the stream package writes.
func TestDeadLetterHeadersAreThoseOfStream(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/log/stream/deadletters.go", nil, 0)
	if os.IsNotExist(err) {
		t.Skip("internal/log/stream is not here")
	}
	must.Do(t, err)
	written := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, `"dl-`) && lit.Value != `"dl-"` {
			written[strings.Trim(lit.Value, `"`)] = true
		}
		return true
	})
	for _, h := range deadLetterHeaders {
		if !written[h.name] {
			t.Errorf("stream does not write header %s", h.name)
		}
		delete(written, h.name)
	}
	for name := range written {
		t.Errorf("deadLetterHeaders lacks %s", name)
	}
}

// ref returns a reference to the schema of a struct or named type. It describes the type if that has not been done.
func (d *document) ref(t reflect.Type) node {
	name := snake(t.Name())
	if _, ok := d.types[name]; !ok {
		d.types[name] = nil // it may refer to itself
		d.types[name] = d.describe(t)
	}
	return node{{"$ref", "#/components/schemas/" + name}}
}

func (d *document) describe(t reflect.Type) node {
	text := d.comment(t.Name())
	if t.Kind() != reflect.Struct {
		return append(node{{"description", text}}, d.typeOf(t, true)...)
	}
	var required []any
	var properties node
	d.addFields(t, &required, &properties)
	return node{{"type", "object"}, {"x-msgpack", "map"}, {"description", text}, {"required", required}, {"properties", properties}}
}

func (d *document) addFields(t reflect.Type, required *[]any, properties *node) {
	for f := range t.Fields() {
		if f.Anonymous {
			d.addFields(f.Type, required, properties)
			continue
		}
		key, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		if option != "omitempty" {
			*required = append(*required, key)
		}
		text := d.comment(t.Name() + "." + f.Name)
		limit := limits[t.Name()+"."+key]
		delete(d.unused, t.Name()+"."+key)
		what := d.typeOf(f.Type, false)
		if what[0].key == "$ref" { // a description may not stand beside a reference
			what = node{{"allOf", []any{what}}}
		}
		*properties = append(*properties, entry{key, append(append(node{{"description", text}}, what...), limit...)})
	}
}

// typeOf returns the JSON type and the msgpack type. With open, it describes the type itself where it has a name.
func (d *document) typeOf(t reflect.Type, open bool) node {
	if t.Kind() == reflect.Pointer {
		return d.typeOf(t.Elem(), open)
	}
	if t.PkgPath() != "" && !open {
		return d.ref(t)
	}
	switch s := shapeOf(t); s.kind {
	case kindBool:
		return node{{"type", "boolean"}, {"x-msgpack", "bool"}}
	case kindInt32:
		return node{{"type", "integer"}, {"format", "int32"}, {"x-msgpack", "int"}}
	case kindInt64:
		return node{{"type", "integer"}, {"format", "int64"}, {"x-msgpack", "int"}}
	case kindFloat32:
		return node{{"type", "number"}, {"format", "float"}, {"x-msgpack", "float32"}}
	case kindFloat64:
		return node{{"type", "number"}, {"format", "double"}, {"x-msgpack", "float64"}}
	case kindString:
		return node{{"type", "string"}, {"x-msgpack", "str"}}
	case kindBytes:
		out := node{{"type", "string"}, {"format", "binary"}, {"x-msgpack", "bin"}}
		if s.size > 0 {
			out = append(out, entry{"x-bytes", s.size})
		}
		return out
	case kindList:
		return node{{"type", "array"}, {"x-msgpack", "array"}, {"items", d.typeOf(t.Elem(), false)}}
	case kindMap:
		if s.elem.kind == kindScalar {
			scalar := node{{"type", []any{"boolean", "integer", "number", "string"}}, {"x-msgpack", "scalar"}}
			return node{{"type", "object"}, {"x-msgpack", "map"}, {"additionalProperties", scalar}}
		}
		return node{{"type", "object"}, {"x-msgpack", "map"}, {"additionalProperties", d.typeOf(t.Elem(), false)}}
	case kindStruct, kindScalar:
	}
	d.t.Fatalf("no description of %s", t)
	return nil
}

func (d *document) comment(name string) string {
	text := d.comments[name]
	if text == "" {
		d.t.Errorf("%s has no comment", name)
	}
	return text
}

// readComments collects the comments of types and fields, with Go names turned into the names on the wire.
func readComments(t *testing.T) map[string]string {
	t.Helper()
	paths := must.Get(filepath.Glob("*.go"))(t)
	raw, wire := map[string]string{}, map[string]string{}
	for _, path := range paths {
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments))(t)
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				s := spec.(*ast.TypeSpec)
				raw[s.Name.Name] = g.Doc.Text()
				readFields(s, raw, wire)
			}
		}
	}
	for name, text := range raw {
		raw[name] = sentence(text, wire)
	}
	return raw
}

// readFields notes the comment of every field that travels, and its name on the wire.
func readFields(s *ast.TypeSpec, raw, wire map[string]string) {
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range structure.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			continue
		}
		name := f.Names[0].Name
		raw[s.Name.Name+"."+name] = f.Comment.Text()
		wire[name], _, _ = strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("msgpack"), ",")
	}
}

var (
	goLink = regexp.MustCompile(`\[([A-Z][A-Za-z]*)\]`)
	goName = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)
	word   = regexp.MustCompile(`^[a-z]+[ ,.:]`)
)

// sentence makes text readable for people who do not know the Go types.
func sentence(text string, wire map[string]string) string {
	text = strings.Join(strings.Fields(goLink.ReplaceAllString(text, "$1")), " ")
	text = goName.ReplaceAllStringFunc(text, func(name string) string {
		if key, ok := wire[name]; ok {
			return key
		}
		return name
	})
	if text == "" {
		return ""
	}
	if word.MatchString(text) { // and not a formula
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.TrimSuffix(text, ".") + "."
}

func camel(s string) string {
	head, tail, ok := strings.Cut(s, "-")
	if !ok {
		return s
	}
	return head + strings.ToUpper(tail[:1]) + tail[1:]
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// snake turns a Go type's name into a component's name: ScoredBatch into scored_batch, PairID into pair_id.
func snake(s string) string { return strings.ToLower(wordStart.ReplaceAllString(s, "${1}_$2")) }
