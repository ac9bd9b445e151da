package shard_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// FuzzScan holds that a scan of any bytes ends without an error, that references lie within the tar, that every example
// makes valid pairs and that no problem's record passes for one.
func FuzzScan(f *testing.F) {
	seeds, err := filepath.Glob("testdata/tars/*.tar")
	if err != nil || len(seeds) < 3 {
		f.Fatalf("seed corpus: %d files, %v", len(seeds), err)
	}
	for _, name := range seeds {
		raw := must.Get(os.ReadFile(name))(f)
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	for _, c := range problemCases(f) {
		if raw := buildTar(f, c.members...); len(raw) < 1<<16 {
			f.Add(raw)
		}
	}
	path := filepath.Join(f.TempDir(), "fuzz.tar")
	f.Fuzz(func(t *testing.T, raw []byte) {
		must.Do(t, os.WriteFile(path, raw, 0o600))
		seen := 0
		totals, err := shard.Scan(context.Background(), []string{path}, shard.Visitor{
			Example: func(ex shard.Example) error {
				seen += len(ex.Captions)
				if ex.Image.Offset < 0 || ex.Image.Offset+ex.Image.Size > int64(len(raw)) || int64(len(ex.Encoded)) != ex.Image.Size {
					t.Errorf("reference %+v into %d bytes", ex.Image, len(raw))
				}
				for _, p := range shard.Pairs(ex) {
					if _, err := schemas.Marshal(p); err != nil {
						t.Error(err)
					}
				}
				return nil
			},
			Problem: func(p shard.Problem) error {
				seen++
				value, err := p.Record()
				must.Check(t, err)
				if _, err := schemas.Unmarshal(schemas.SchemaPair, value); err == nil && p.Reason != shard.ReasonCut {
					t.Errorf("%v passes for a pair", p)
				}
				return nil
			},
		})
		if err != nil || seen != totals.Pairs+problemCount(totals) {
			t.Errorf("%d seen, totals %+v, %v", seen, totals, err)
		}
	})
}
