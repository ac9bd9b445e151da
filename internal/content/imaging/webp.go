package imaging

import (
	"bytes"
	"encoding/binary"
)

const (
	webpFlags = 20   // offset of the flags, where the first chunk is VP8X
	webpAlpha = 0x10 // flag: the pixels have alpha
)

// withAlphaFlag returns a WebP whose flag says whether an alpha chunk precedes its pixels. Programs that remove the
// alpha leave the flag, and libwebp ignores it, but golang.org/x/image/webp refuses such files.
//
//	"RIFF" | 4 length | "WEBP" | "VP8X" | 4 length | flags, canvas | name | 4 length | length bytes | a zero where that is odd | ...
func withAlphaFlag(encoded []byte) []byte {
	if len(encoded) <= webpFlags || string(encoded[12:16]) != "VP8X" {
		return encoded
	}
	var flag byte
	for at := 12; at+8 <= len(encoded); {
		name, size := string(encoded[at:at+4]), int(binary.LittleEndian.Uint32(encoded[at+4:]))
		if name == "VP8 " || name == "VP8L" {
			break
		}
		if name == "ALPH" {
			flag = webpAlpha
		}
		at += 8 + size + size&1
	}
	if encoded[webpFlags]&webpAlpha == flag {
		return encoded
	}
	out := bytes.Clone(encoded)
	out[webpFlags] ^= webpAlpha
	return out
}
