package table

import (
	"errors"
	_ "unsafe" // for go:linkname

	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
	block "github.com/pierrec/lz4/v4"
)

// The library decodes an LZ4 page into a second buffer if the page has shrunk to more than a third. It then reads the
// first buffer, which has the bytes of an earlier page, or zeros. The library has no way to set a codec, so this code
// reaches into its table. TestParquetReadsEveryCodec fails if the table has changed.
//
//go:linkname codecs github.com/parquet-go/parquet-go.compressionCodecs
var codecs [format.Lz4Raw + 1]compress.Codec

func init() { codecs[format.Lz4Raw] = rawLZ4{codecs[format.Lz4Raw]} }

// rawLZ4 decodes pages in place.
type rawLZ4 struct{ compress.Codec }

var errLZ4 = errors.New("a page of LZ4 is damaged")

// Decode implements [compress.Codec]. The buffer has the size that the page's head names.
func (rawLZ4) Decode(dst, src []byte) ([]byte, error) {
	n, err := block.UncompressBlock(src, dst)
	if err != nil {
		return nil, errLZ4
	}
	return dst[:n], nil
}
