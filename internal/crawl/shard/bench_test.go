package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// crawl writes a tar of 200 images of 20 kB with a caption each.
func crawl(b *testing.B) (path string, refs []schemas.ImageRef, ids []schemas.ImageID) {
	b.Helper()
	var buf bytes.Buffer
	w := shard.NewWriter(&buf)
	var offsets []int64
	var image []byte
	for i := range 200 {
		image = []byte(fmt.Sprintf("%06d", i) + strings.Repeat("image", 4000))
		at := must.Get(w.Write(fmt.Sprintf("%06d", i), shard.File{Ext: "jpg", Data: image}, shard.File{Ext: "txt", Data: []byte("a caption")}))(b)
		offsets, ids = append(offsets, at[0]), append(ids, schemas.NewImageID(image))
	}
	must.Do(b, w.Close())
	path = writeFile(b, b.TempDir(), "0.tar", buf.Bytes())
	for _, at := range offsets {
		refs = append(refs, schemas.ImageRef{URI: shard.FileURI(path), Offset: at, Size: int64(len(image))})
	}
	return path, refs, ids
}

func BenchmarkScan(b *testing.B) {
	path, refs, _ := crawl(b)
	b.SetBytes(int64(len(refs)) * refs[0].Size)
	for b.Loop() {
		totals, err := shard.Scan(context.Background(), []string{path}, shard.Visitor{Example: func(shard.Example) error { return nil }})
		if err != nil || totals.Examples != len(refs) {
			b.Fatal(totals, err)
		}
	}
}

func BenchmarkReadRange(b *testing.B) {
	path, refs, ids := crawl(b)
	bucket := openBucket(b, shard.FileURI(filepath.Dir(path)))
	b.SetBytes(refs[0].Size)
	for i := 0; b.Loop(); i++ {
		must.Get(bucket.ReadRange(context.Background(), refs[i%len(refs)], ids[i%len(refs)]))(b)
	}
}
