package table_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestFootersThatClaimTooMuch has files of a few bytes whose footers announce gigabytes. Each costs less than 64 MB.
func TestFootersThatClaimTooMuch(t *testing.T) {
	many := func(field byte, n int) []byte { // elements of a byte each that end at once
		return slices.Concat([]byte{field<<4 | 9, 0xfc}, binary.AppendUvarint(nil, uint64(n)), make([]byte, n))
	}
	for name, c := range map[string]struct {
		footer []byte
		size   int // that the file says; 0: its own
		want   string
	}{
		"a list that is not there":       {binary.AppendUvarint([]byte{0x15, 2, 0x19, 0xfc}, 1<<22), 0, "ends early"},
		"a list within a list":           {binary.AppendUvarint([]byte{0x49, 0x1c, 0x19, 0xfc}, 1<<22), 0, "ends early"},
		"another number for its field":   {binary.AppendUvarint([]byte{0x09, 4, 0xfc}, 1<<22), 0, "ends early"},
		"a text that is not there":       {binary.AppendUvarint([]byte{0x68}, 1<<30), 0, "ends early"},
		"many columns":                   {many(2, 4097), 0, "4097 elements, want at most 4096"},
		"many groups of rows":            {many(4, 1<<18+1), 0, "elements"},
		"a footer that is not there":     {nil, 1 << 30, "claims 1073741824 bytes"},
		"a footer of 16 MiB and a byte":  {make([]byte, 16<<20+1), 0, "claims 16777217 bytes"},
		"a footer longer than the file":  {nil, 100, "claims 100 bytes"},
		"structures within one another":  {bytes.Repeat([]byte{0x1c}, 10_000), 0, "nested"},
		"lists within one another":       {append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 10_000)...), 0, "nested"},
		"a type that no footer has":      {[]byte{0x1b, 1, 0x55}, 0, "ends early, or is none"},
		"a list of what is only a type":  {[]byte{0x19, 0x11, 0}, 0, "ends early, or is none"},
		"a field that is a type of none": {[]byte{0x10}, 0, "ends early, or is none"},
	} {
		size := c.size
		if size == 0 {
			size = len(c.footer)
		}
		raw := slices.Concat([]byte("PAR1"), c.footer, binary.LittleEndian.AppendUint32(nil, uint32(size)), []byte("PAR1"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := table.Parquet(t.Context(), bytes.NewReader(raw), int64(len(raw)), func(table.Row) error { return nil })
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: %d bytes of %d were allocated", name, took, len(raw))
		}
	}
}

// TestTextsOfParquetAreBounded has a text that a dictionary says once and many rows share. A longer one than a line of
// a list may have is left out, and not copied.
func TestTextsOfParquetAreBounded(t *testing.T) {
	type row struct {
		Most string `parquet:"most,dict"`
		Long string `parquet:"long,dict"`
	}
	var buf bytes.Buffer
	one := row{Most: strings.Repeat("x", 1<<20), Long: strings.Repeat("x", 1<<20+1)}
	must.Do(t, parquet.Write(&buf, []row{one, one}, parquet.Compression(&parquet.Snappy)))
	rows := 0
	if err := table.Parquet(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), func(r table.Row) error {
		rows++
		if _, found := r["long"]; found || len(r.Text("most")) != 1<<20 {
			t.Errorf("row %d has columns of %d and %d bytes", rows, len(r.Text("most")), len(r.Text("long")))
		}
		return nil
	}); err != nil || rows != 2 {
		t.Errorf("%d rows, error %v", rows, err)
	}
}
