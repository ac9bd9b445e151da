//go:build s3

package service

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/schemas"
)

// TestS3ABucketThatTakesNoSegmentIsNamed has a bucket that refuses, one that is gone and a server that is away, where a
// group is closed. The lane gets an error that names the place. It tries again, and goes on once the bucket is there.
func TestS3ABucketThatTakesNoSegmentIsNamed(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	writable, readOnly := s3test.Start(t), s3test.Start(t, "--readonly")
	for bucket, c := range map[string]struct {
		server      *s3test.Server
		spoil, mend func()
		want        string
	}{
		"refuses": {readOnly, func() {}, nil, "AccessDenied"},
		"gone":    {writable, func() { must.Do(t, os.RemoveAll(writable.Dir(t, "gone"))) }, func() { writable.Dir(t, "gone") }, "NoSuchBucket"},
		"away":    {writable, func() { writable.Stop(t) }, func() { writable.Run(t) }, "connection refused"},
	} {
		c.server.Bucket(t, bucket)
		s := newSegments(t, c.server.URL(bucket+"/segments"), nil)
		o := scoped(schemas.ScopeLane)
		full := func() *stage { // a lane with a full group, as an owner takes it up
			st := must.Get(newSpec(t, o, nil, s).New(1, nil))(t).(*stage)
			for seq := range int64(o.GroupSize) {
				must.Get(st.core.Add(embedding(int(seq), "m"), seq))(t)
			}
			return st
		}
		st := full()
		c.spoil()
		group, err := st.compute(t.Context(), indexer.ByCount, o)
		place := "writing the segment of group 1/0 to s3://" + bucket + "/segments"
		if group != nil || !errors.Is(err, stream.ErrTransient) || !strings.Contains(fmt.Sprint(err), place) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("bucket %s: group %v, error %v; want %s in it", bucket, group, err, c.want)
		}
		must.Check(t, st.Close())
		own := &closed{Model: "m", Groups: []store.Name{{Lane: 1, Seq: 0, Digest: "ab"}}}
		if _, err := s.ask(t.Context(), schemas.GroupID{Lane: 1, Seq: 1}, "m", o, own); !errors.Is(err, stream.ErrTransient) {
			t.Errorf("bucket %s: asking gives %v", bucket, err)
		}
		if c.mend != nil {
			c.mend()
			st := full()
			group := must.Get(st.compute(t.Context(), indexer.ByCount, o))(t)
			if there := must.Get(s.store.List(t.Context(), "m"))(t); group == nil || len(there) != 1 {
				t.Errorf("bucket %s is there again: group %v, segments %v", bucket, group, there)
			}
			must.Check(t, st.Close())
		}
		must.Check(t, s.Close())
	}
}
