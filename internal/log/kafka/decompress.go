package kafka

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go"
)

// maxZstdWindow bounds the window that a zstd frame may demand. Only --ultra asks for more.
const maxZstdWindow = 8 << 20

var errTooLarge = errors.New("larger than allowed")

// decompress expands data to at most limit bytes, or returns errTooLarge.
func decompress(codec kafka.Compression, data []byte, limit int) ([]byte, error) {
	var from io.Reader
	switch codec {
	case 0:
		return data, nil
	case kafka.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		from = z
	case kafka.Snappy:
		return unsnap(data, limit)
	case kafka.Lz4:
		from = lz4.NewReader(bytes.NewReader(data))
	case kafka.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		from = z
	default:
		return nil, fmt.Errorf("compression %d is not known", codec)
	}
	var out bytes.Buffer
	_, err := io.Copy(&out, io.LimitReader(from, int64(limit)+1))
	if out.Len() > limit {
		return out.Bytes()[:limit], errTooLarge
	}
	return out.Bytes(), err
}

// xerialMagic begins the framing that Java clients put around snappy blocks; 8 bytes of versions follow.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func unsnap(data []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(data, xerialMagic) {
		return appendBlock(nil, data, limit)
	}
	if len(data) < 16 {
		return nil, io.ErrUnexpectedEOF
	}
	var out []byte
	for data = data[16:]; len(data) > 0; {
		if len(data) < 4 {
			return out, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(data))
		if data = data[4:]; n > int64(len(data)) {
			return out, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = appendBlock(out, data[:n], limit); err != nil {
			return out, err
		}
		data = data[n:]
	}
	return out, nil
}

// appendBlock decodes a snappy block, whose head states its decompressed size.
func appendBlock(out, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return out, err
	}
	if n > limit-len(out) {
		return out, errTooLarge
	}
	decoded, err := snappy.Decode(nil, block)
	return append(out, decoded...), err
}
