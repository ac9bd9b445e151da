package schemas

// Topic is the name of a topic without its namespace prefix.
type Topic string

// The topics, in the order in which a pair travels through them.
const (
	Pairs       Topic = "pairs"
	Embeddings  Topic = "embeddings"
	Neighbors   Topic = "neighbors"
	Groups      Topic = "groups"
	Batches     Topic = "batches"
	Scored      Topic = "scored"
	Features    Topic = "features"
	ProgressLog Topic = "progress"
	DeadLetters Topic = "dead-letters"
	Control     Topic = "control"
	Sources     Topic = "sources"
	Judgements  Topic = "judgements"
	Forgotten   Topic = "forgotten"
)

// TopicInfo describes one topic of the catalogue.
type TopicInfo struct {
	Topic     Topic
	Lane      bool     // partitioned by lane: its partition count must equal the number of lanes
	Schemas   []string // values that may appear in it
	WrittenBy string
}

// Catalogue lists every topic that pairstream uses.
func Catalogue() []TopicInfo {
	return []TopicInfo{
		{Pairs, true, []string{SchemaPair, SchemaSeal}, "producers"},
		{Embeddings, true, []string{SchemaEmbedding, SchemaRefusal, SchemaSeal}, "encoder"},
		{Neighbors, true, []string{SchemaNeighborChunk}, "indexer"},
		{Groups, true, []string{SchemaGroup, SchemaSeal}, "indexer"},
		{Batches, true, []string{SchemaBatch, SchemaSeal}, "grouper"},
		{Scored, true, []string{SchemaScoredBatch, SchemaSeal}, "discriminator"},
		{Features, true, []string{SchemaFeatureBlock}, "trainer"},
		{ProgressLog, false, []string{SchemaProgress}, "trainer, eval"},
		{DeadLetters, false, nil, "all"},
		{Control, false, nil, "stages, operators"},
		{Sources, false, nil, "producers"},
		{Judgements, false, []string{SchemaJudgement}, "operators"},
		{Forgotten, false, nil, "operators"},
	}
}

// Compacted reports whether the topic keeps the last note of every key for ever, and no other records.
func (t Topic) Compacted() bool { return t == Control || t == Sources || t == Forgotten }

// Name returns the topic's name on the broker: "NAMESPACE.topic", or the bare topic when the namespace is empty.
func (t Topic) Name(namespace string) string {
	if namespace == "" {
		return string(t)
	}
	return namespace + "." + string(t)
}

// Names of the message headers.
const (
	HeaderSchema = "schema"
	HeaderSeq    = "seq"
	HeaderSource = "src"
)

// Values of the schema header: "pairstream.<type>/<major>".
const (
	SchemaPair          = "pairstream.pair/1"
	SchemaSeal          = "pairstream.seal/1"
	SchemaEmbedding     = "pairstream.embedding/1"
	SchemaRefusal       = "pairstream.refusal/1"
	SchemaNeighborChunk = "pairstream.neighbor_chunk/1"
	SchemaGroup         = "pairstream.group/1"
	SchemaBatch         = "pairstream.batch/1"
	SchemaScoredBatch   = "pairstream.scored_batch/1"
	SchemaFeatureBlock  = "pairstream.feature_block/1"
	SchemaProgress      = "pairstream.progress/1"
	SchemaJudgement     = "pairstream.judgement/1"
)
