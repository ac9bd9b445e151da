package table_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

type listed struct {
	URL     string  `parquet:"url"`
	Caption string  `parquet:"caption"`
	Score   float64 `parquet:"score"`
	Small   float32 `parquet:"small"`
}

// TestParquetReadsEveryCodec reads pages that shrink much, a little, and not at all.
func TestParquetReadsEveryCodec(t *testing.T) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw} {
		for _, repeats := range []int{1, 4, 40} {
			for _, version := range []int{1, 2} {
				var rows []listed
				var want []table.Row
				for i := range 500 {
					l := listed{fmt.Sprintf("https://example.org/%x.jpg", i*7919), strings.Repeat(fmt.Sprint(i*104729%99991, " "), repeats), 0.5, 0.25}
					rows = append(rows, l)
					want = append(want, table.Row{"url": l.URL, "caption": l.Caption, "score": 0.5, "small": 0.25})
				}
				var buf bytes.Buffer
				must.Do(t, parquet.Write(&buf, rows, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(4000)))
				if got := parquetRows(t, buf.Bytes()); !reflect.DeepEqual(got, want) {
					t.Errorf("%s, version %d, %d repeats: %d rows differ", codec, version, repeats, len(got))
				}
			}
		}
	}
}

func parquetRows(t *testing.T, file []byte) (rows []table.Row) {
	t.Helper()
	must.Do(t, table.Parquet(t.Context(), bytes.NewReader(file), int64(len(file)), func(r table.Row) error { rows = append(rows, r); return nil }))
	return rows
}

// TestParquetNamesACodecThatItCannotRead reads a file whose footer claims a codec that Parquet has given up.
func TestParquetNamesACodecThatItCannotRead(t *testing.T) {
	var buf bytes.Buffer
	must.Do(t, parquet.Write(&buf, []listed{{URL: "a"}}, parquet.Compression(hadoopLZ4{&parquet.Uncompressed})))
	err := table.Parquet(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), func(table.Row) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "LZ4") {
		t.Errorf("error %v, want one that names LZ4", err)
	}
}

// hadoopLZ4 is the codec that LZ4_RAW has replaced.
type hadoopLZ4 struct{ compress.Codec }

func (hadoopLZ4) CompressionCodec() format.CompressionCodec { return format.Lz4 }

// TestParquetLeavesOutWhatIsNoNumber reads numbers that JSON does not have.
func TestParquetLeavesOutWhatIsNoNumber(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		var buf bytes.Buffer
		must.Do(t, parquet.Write(&buf, []listed{{"a", "b", v, 1}, {"a", "b", 1, float32(v)}}))
		want := []table.Row{{"url": "a", "caption": "b", "small": 1.0}, {"url": "a", "caption": "b", "score": 1.0}}
		if got := parquetRows(t, buf.Bytes()); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: rows %v, want %v", v, got, want)
		}
	}
}
