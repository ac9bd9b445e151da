//go:build cgo && s3

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// upload copies the tars of a folder into a bucket.
func upload(t *testing.T, b *blob.Bucket, prefix, dir string) {
	t.Helper()
	tars := must.Get(filepath.Glob(filepath.Join(dir, "*.tar")))(t)
	for _, p := range tars {
		raw, err := os.ReadFile(p)
		if err == nil {
			err = b.WriteAll(t.Context(), prefix+filepath.Base(p), raw, nil)
		}
		must.Do(t, err)
	}
}

// TestS3Produce publishes tars of a bucket, with references to it, however many are read at once and wherever it is
// killed.
func TestS3Produce(t *testing.T) {
	const pairs = 6 * 50 * 100
	server := s3test.Start(t)
	bucket := server.Bucket(t, "crawl")
	upload(t, bucket, "2026/", writeTars(t, 6, 50))
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "3")
	t.Setenv("BUCKET_ROOTS", "file:///,s3://crawl?"+server.Query())
	args := []string{"produce", "s3://crawl/2026/"}
	var want [][]string
	for _, parallel := range []string{"1", "5"} {
		t.Setenv("NAMESPACE", "parallel-"+parallel)
		if out := mustCommand(t, append(args, "--parallel", parallel)...); !strings.Contains(out, fmt.Sprintf("published %d pairs of 300 images from 6 tars", pairs)) {
			t.Errorf("parallel %s: %s", parallel, out)
		}
		got, _ := published(t, openNamespace(t))
		if want == nil {
			want = got
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("parallel %s gives other records than 1", parallel)
		}
	}
	for _, value := range want[0][:10] {
		r, err := schemas.Unmarshal(schemas.SchemaPair, []byte(value))
		if pair, ok := r.(*schemas.Pair); err != nil || !ok || !strings.HasPrefix(pair.Image.URI, "s3://crawl/2026/0000") || strings.Contains(pair.Image.URI, "?") {
			t.Errorf("record %v (%v)", r, err)
		}
	}
	r := rand.New(rand.NewPCG(soak.Seed(t, 5), 1))
	for round := range soak.Choose(1, 20) {
		t.Setenv("NAMESPACE", fmt.Sprintf("killed-%d", round))
		mustCommand(t, "topics", "create")
		log := openNamespace(t)
		kills := killUntilDone(t, log, r, pairs, args)
		got, repeats := published(t, log)
		if !slices.EqualFunc(got, want, slices.Equal) || repeats > pairs/100 {
			t.Errorf("round %d: other records than undisturbed, or %d repeats", round, repeats)
		}
		t.Logf("round %d: %d kills, %d repeats", round, kills, repeats)
	}
	upload(t, bucket, "2026/", writeTars(t, 1, 3)) // in the place of the first tar
	if out := mustCommand(t, args...); !strings.Contains(out, "published 300 pairs") || !strings.Contains(out, "s3://crawl/2026/00000.tar has changed") {
		t.Errorf("a changed object: %s", out)
	}
	if out := mustCommand(t, args...); !strings.Contains(out, "published 0 pairs") {
		t.Errorf("once more: %s", out)
	}
	out := filepath.Join(t.TempDir(), "vocab.txt")
	if got := mustCommand(t, "vocab", "s3://crawl/2026/", "--out", out); !strings.Contains(got, "wrote ") {
		t.Errorf("vocab: %s", got)
	}
}
