//go:build cgo && s3

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/s3test"
)

// TestS3Plan makes a plan of tars in a bucket: that of the same tars on a disk but for where they lie.
func TestS3Plan(t *testing.T) {
	in := setUpPipeline(t, 8)
	t.Setenv("GRIT_FEATURES", "encoder")
	t.Setenv("EPOCHS", "1")
	server := s3test.Start(t)
	upload(t, server.Bucket(t, "crawl"), "2026/", in("scenes"))
	mustCommand(t, "batches", "--out", in("local"), in("scenes"))
	t.Setenv("BUCKET_ROOTS", "s3://crawl?"+server.Query())
	mustCommand(t, "batches", "--out", in("plan"), "s3://crawl/2026/")
	got, want := planRows(t, in("plan"), readManifest(t, in("plan")).Files), planRows(t, in("local"), readManifest(t, in("local")).Files)
	if len(got) != 24 || len(got) != len(want) {
		t.Fatalf("%d samples, want 24 as of the disk's %d", len(got), len(want))
	}
	for i, r := range got {
		if !strings.HasPrefix(r.Text("uri"), "s3://crawl/2026/") || strings.Contains(r.Text("uri"), "?") {
			t.Fatalf("sample %d lies at %s", i, r.Text("uri"))
		}
		for _, name := range []string{"pair", "key", "text"} {
			if r.Text(name) != want[i].Text(name) {
				t.Errorf("sample %d has %s %q, want %q", i, name, r.Text(name), want[i].Text(name))
			}
		}
	}
}
