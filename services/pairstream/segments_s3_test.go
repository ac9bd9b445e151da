//go:build cgo && s3

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/s3test"
)

// TestS3SegmentsAreAskedAndSearched runs the pipeline with its segments in a bucket, whose options stand in
// BUCKET_ROOTS alone. Groups of both lanes ask one another, a searcher answers over all, and a replay gives the same.
func TestS3SegmentsAreAskedAndSearched(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 40)
	server := s3test.Start(t)
	server.Bucket(t, "crawl")
	t.Setenv("BUCKET_ROOTS", "file://"+in("")+",s3://crawl?"+server.Query())
	t.Setenv("NEIGHBORS_SCOPE", "crawl")
	t.Setenv("SEGMENTS_ROOT", "s3://crawl/segments")
	t.Setenv("NAMESPACE", "first")
	t.Setenv("CHECKPOINT_DIR", in("first"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	foreign, outside, pair := askedOthers(t, openNamespace(t))
	if foreign == 0 || outside == 0 {
		t.Errorf("%d groups have asked another lane, and %d images come from other groups", foreign, outside)
	}
	searchSegments(t, pair)
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	// All that a replay needs is in the manifest, but for places on other machines: a manifest may not open these.
	for _, variable := range []string{"CHECKPOINT_DIR", "NAMESPACE", "NEIGHBORS_SCOPE"} {
		t.Setenv(variable, "")
	}
	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--checkpoints", in("again")); strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}
}
