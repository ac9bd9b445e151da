package main

import (
	"bytes"
	"image/jpeg"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/repack"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// BenchmarkRepack makes the copies of photographs that REPACK_ROOT gets, and decodes photographs and copies as a model
// of 224 pixels wants them. It counts processor time, as the machine may be busy.
func BenchmarkRepack(b *testing.B) {
	var photos, copies [][]byte
	for i := range 32 {
		var encoded bytes.Buffer
		must.Do(b, jpeg.Encode(&encoded, photo(int64(i)), &jpeg.Options{Quality: photoQuality}))
		small, _ := must.Get2(repack.Small(encoded.Bytes(), 288))(b)
		photos, copies = append(photos, encoded.Bytes()), append(copies, small)
	}
	decode := func(encoded []byte) error {
		im, err := imaging.DecodeShrunk(encoded, 2*224)
		if err == nil {
			im.Resize(224, 224)
		}
		return err
	}
	for _, row := range []struct {
		name   string
		images [][]byte
		work   func([]byte) error
	}{
		{"copy", photos, func(encoded []byte) error {
			_, _, err := repack.Small(encoded, 288)
			return err
		}},
		{"decode a photograph", photos, decode},
		{"decode a copy", copies, decode},
	} {
		b.Run(row.name, func(b *testing.B) {
			size := 0
			for _, encoded := range row.images {
				size += len(encoded)
			}
			began, n := machine.ProcessorTime(), 0
			for b.Loop() {
				must.Do(b, row.work(row.images[n%len(row.images)]))
				n++
			}
			b.ReportMetric(float64(n)/(machine.ProcessorTime()-began).Seconds(), "images/core-s")
			b.ReportMetric(float64(size)/float64(len(row.images)), "bytes/image")
		})
	}
}
