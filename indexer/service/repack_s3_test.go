//go:build s3

package service

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/schemas"
)

// TestS3GroupsAreCopied puts the copies into a bucket, whose options stand in BUCKET_ROOTS alone. The owner dies before
// its first record, and its successor has no crawl.
func TestS3GroupsAreCopied(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "shards")
	p := newPictured(t)
	change := func(s *Repack) {
		s.Root, s.Roots = "s3://shards/copies/", append(s.Roots, server.URL("shards"))
	}
	fresh := p.Clone()
	p.run(t, -1, change)
	l := pictured{Log: fresh, folder: p.folder, tar: p.tar}
	l.run(t, 0, change)
	must.Do(t, os.Remove(p.tar))
	l.run(t, -1, change)
	if !sameRecords(l.Log, p.Log) {
		t.Error("an owner that finds the tars makes other records")
	}
	bucket := must.Get(shard.OpenBucket(t.Context(), []string{server.URL("shards")}, nil))(t)
	copies := copiesOf(l.Log)
	for pair, ref := range copies {
		if _, err := bucket.ReadRange(t.Context(), ref, schemas.ImageID(pair)); err != nil || !strings.HasPrefix(ref.URI, "s3://shards/copies/group-00001-") || strings.Contains(ref.URI, "?") {
			t.Errorf("copy %+v: %v", ref, err)
		}
	}
	if err := bucket.Close(); err != nil || len(copies) != 18 {
		t.Errorf("%d pairs have copies, want 18 (%v)", len(copies), err)
	}
}
