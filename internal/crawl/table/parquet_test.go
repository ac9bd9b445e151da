package table_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// kinds has a column of every kind of scalar, and some that are none.
type kinds struct {
	Bool      bool     `parquet:"bool"`
	Small     int8     `parquet:"small"`
	Unsigned  uint32   `parquet:"unsigned"`
	Large     uint64   `parquet:"large"`
	Float     float32  `parquet:"float"`
	Text      string   `parquet:"text"`
	Bytes     []byte   `parquet:"bytes"`
	Choice    string   `parquet:"choice,enum"`
	Date      int32    `parquet:"date,date"`
	Time      int64    `parquet:"time,timestamp(microsecond)"`
	Missing   *string  `parquet:"missing"`
	Price     int64    `parquet:"price,decimal(2:10)"`
	PriceText int32    `parquet:"pricetext,decimal(2:9)"`
	UUID      [16]byte `parquet:"uuid,uuid"`
	Fixed     [4]byte  `parquet:"fixed"`
	List      []int64  `parquet:"list"`
	Group     struct {
		Text string `parquet:"text"`
	} `parquet:"group"`
}

func readAll(t *testing.T, rows []kinds) (out []table.Row) {
	t.Helper()
	var buf bytes.Buffer
	must.Do(t, parquet.Write(&buf, rows))
	must.Do(t, table.Parquet(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), func(r table.Row) error {
		out = append(out, r)
		return nil
	}))
	return out
}

func TestParquetGivesScalars(t *testing.T) {
	got := readAll(t, []kinds{
		{
			Bool: true, Small: -3, Unsigned: math.MaxUint32, Large: math.MaxUint64, Float: 0.1, Text: "a text", Bytes: []byte("bytes"), Choice: "b", Date: 20000,
			Time: 1 << 50, Price: 199, PriceText: 5, UUID: [16]byte([]byte("0123456789abcdef")), Fixed: [4]byte([]byte("text")), List: []int64{1},
		},
		{Large: math.MaxInt64, Text: "half \xff", Bytes: []byte{0xff}},
	})
	want := []table.Row{
		{
			"bool": true, "small": int64(-3), "unsigned": int64(math.MaxUint32), "large": float64(math.MaxUint64), "float": float64(float32(0.1)),
			"text": "a text", "bytes": "bytes", "choice": "b", "date": int64(20000), "time": int64(1 << 50),
		},
		{
			"bool": false, "small": int64(0), "unsigned": int64(0), "large": int64(math.MaxInt64), "float": 0.0, "choice": "", "date": int64(0), "time": int64(0),
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

func TestParquetEndsWithTheFirstError(t *testing.T) {
	var buf bytes.Buffer
	must.Do(t, parquet.Write(&buf, make([]kinds, 3)))
	calls, stop := 0, errors.New("enough")
	err := table.Parquet(t.Context(), bytes.NewReader(buf.Bytes()), int64(buf.Len()), func(table.Row) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}
