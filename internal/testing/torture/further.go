package torture

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/pierrec/lz4/v4"
)

// furtherImages lists what the other lists leave out: cut files, restarts, and files of other kinds under the name of
// an image.
func furtherImages() map[string]func() []byte {
	out := map[string]func() []byte{
		"jpeg: a restart behind every block of 16 megapixels": restarting,
		"jpeg: 12 bits a sample": func() []byte {
			return bytes.Replace(dense(512, 512, false), []byte("\xff\xc0\x00\x0b\x08"), []byte("\xff\xc0\x00\x0b\x0c"), 1)
		},
		"jpeg: five components":       func() []byte { return progressive{w: 4000, h: 4000, components: 5, sampling: 0x11, scans: 9}.encode() },
		"jpeg: samplings of 4 x 4":    func() []byte { return progressive{w: 4000, h: 4000, components: 3, sampling: 0x44, scans: 9}.encode() },
		"jpeg: no height":             func() []byte { return dense(512, 0, false) },
		"jpeg: a directory of itself": func() []byte { return behindStart(small(), segment(0xe1, directories())) },
		"png: pixels of 1 GB for one": func() []byte {
			return bytes.Replace(dot(), chunk("IDAT", bomb{w: 1, h: 1, depth: 8}.pixels()), chunk("IDAT", squeezed()), 1)
		},
		"png: an international text of 1 GB": func() []byte {
			return besideHeader(dot(), chunk("iTXt", append([]byte("x\x00\x01\x00\x00\x00"), squeezed()...)))
		},
		"png: 1 x 65,535, interlaced":      bomb{w: 1, h: 65_535, depth: 16, colour: 6, interlaced: true}.encode,
		"png: 65,535 x 900, interlaced":    bomb{w: 65_535, h: 900, depth: 1, colour: 3, interlaced: true}.encode,
		"png: an animation of 4,000 sides": func() []byte { return besideHeader(animated(10), chunk("fcTL", bytes.Repeat([]byte{0xff}, 26))) },
		"webp: a canvas of 16,777,216 sides": func() []byte {
			b := extended(0x02, append(part("ANIM", make([]byte, 6)), part("ANMF", append(bytes.Repeat([]byte{0xff}, 16), part("VP8L", plain1x1())...))...))
			copy(b[24:], "\xff\xff\xff\xff\xff\xff")
			return b
		},
		"webp: an alpha plane of 64 megapixels": func() []byte {
			return extended(0x10, append(part("ALPH", append([]byte{1}, lossless{w: 16_000, h: 4000}.encode()[20:]...)), part("VP8L", plain1x1())...))
		},
	}
	for _, name := range []string{"heic", "mif1", "crx "} {
		out["iso: "+name] = func() []byte {
			return []byte("\x00\x00\x00\x18ftyp" + name + "\x00\x00\x00\x00\x00\x00\x00\x01mdat\x7f\xff\xff\xff\xff\xff\xff\xff")
		}
	}
	for name, start := range map[string]string{
		"jxl": "\xff\x0a\xff\xff\xff\xff", "jpeg 2000": "\x00\x00\x00\x0cjP  \r\n\x87\n", "psd": "8BPS\x00\x01", "ico": "\x00\x00\x01\x00\xff\xff", "pdf": "%PDF-1.7\n",
		"zip": "PK\x03\x04", "html": "<!doctype html><script>", "script": "#!/bin/sh\nrm -rf /\n", "gzip": "\x1f\x8b\x08\x00", "elf": "\x7fELF\x02\x01\x01",
	} {
		out["other: "+name] = func() []byte { return append([]byte(start), make([]byte, 4096)...) }
	}
	maps.Copy(out, cutImages())
	return out
}

// cutImages lists files that end after every tenth part.
func cutImages() map[string]func() []byte {
	out := map[string]func() []byte{}
	for tenth := 1; tenth < 10; tenth++ {
		for name, encode := range map[string]func() []byte{
			"jpeg: 4 megapixels, progressive": progressive{w: 2000, h: 2000, components: 3, sampling: 0x22, scans: 9}.encode,
			"png: 4 megapixels, RGB":          bomb{w: 2000, h: 2000, depth: 8, colour: 2, filter: 4}.encode,
			"webp: 65,536 groups":             lossless{w: 64, h: 64, groups: true}.encode,
		} {
			out[fmt.Sprintf("%s, cut after %d tenths", name, tenth)] = func() []byte {
				b := encode()
				return b[:len(b)*tenth/10]
			}
		}
	}
	return out
}

// restarting is a grey JPEG of 4,000 x 4,000 pixels with a restart marker behind every block.
func restarting() []byte {
	b := append([]byte{0xff, 0xd8}, segment(0xdb, append([]byte{0}, ones()...))...)
	b = append(b, segment(0xc0, []byte{8, 4000 >> 8, 4000 & 255, 4000 >> 8, 4000 & 255, 1, 1, 0x11, 0})...)
	b = append(b, segment(0xc4, append(append([]byte{0x00, 1}, make([]byte, 15)...), 0))...)
	b = append(b, segment(0xc4, append(append([]byte{0x10, 1}, make([]byte, 15)...), 0))...)
	b = append(b, segment(0xdd, []byte{0, 1})...)
	b = append(b, segment(0xda, []byte{1, 1, 0, 0, 63, 0})...)
	for i := range 500 * 500 {
		b = append(b, 0x3f, 0xff, 0xd0|byte(i%8))
	}
	return append(b[:len(b)-2], 0xff, 0xd9)
}

// directories is an Exif segment whose directory has 65,535 entries and leads to itself.
func directories() []byte {
	b := append([]byte("Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff"), bytes.Repeat([]byte("\x69\x87\x04\x00\x01\x00\x00\x00\x08\x00\x00\x00"), 5000)...)
	return append(b, 8, 0, 0, 0)
}

// furtherTars lists tars whose sizes and captions are odd.
func furtherTars() []Tar {
	captioned := func(captions ...any) func() []byte {
		return func() []byte {
			text, _ := json.Marshal(map[string]any{"captions": captions}) // these values can be written
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: text})
		}
	}
	return []Tar{
		{"a PAX size that is smaller", func() []byte { return append(described(pax("size", "1")), sound()...) }},
		{"a PAX size that is larger", func() []byte { return append(described(pax("size", "2048")), sound()...) }},
		{"a PAX size of a caption of 60 GB", func() []byte { return append(described(pax("size", "64424509440")), sound()...) }},
		{"200,000 empty entries", func() []byte {
			one := header512("a.png", '0', 0)
			return append(bytes.Repeat(one, 200_000), make([]byte, 1024)...)
		}},
		{"200,000 folders", func() []byte { return append(bytes.Repeat(header512("a/", '5', 0), 200_000), sound()...) }},
		{"40,000 headers and end markers", func() []byte {
			return bytes.Repeat(append(header512("a.png", '0', 0), make([]byte, 1024)...), 40_000)
		}},
		{"64 MB of noise behind the end", func() []byte { return append(sound(), noise(64<<20)...) }},
		{"60,000 end markers and junk", func() []byte {
			return append(sound(), bytes.Repeat(append([]byte("junk"), make([]byte, 1020)...), 60_000)...)
		}},
		{"captions of zeros, controls and directions", captioned("\x00", "a\x00b", "\x1b[2J\x1b]0;x\x07", "\u202egnp.exe", "\u2066\u2067\u2068", "\ufeff", "\u200b", "\u00ad", "\ufffe\uffff", "\U000e0001")},
		{"captions of marks without end", captioned("a"+strings.Repeat("\u0301", 4000), strings.Repeat("\u202a", 2000), strings.Repeat("\U0001f468\u200d", 1000))},
		{"halves of surrogates", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: []byte(`{"captions":["\ud800","\udc00\ud800","x\ud83d","\ud83d\ude00"]}`)})
		}},
		{"a caption of 1 MB", captioned(strings.Repeat("long ", 200_000))},
		{"a caption of 1 MB that is no UTF-8", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: []byte(`{"caption":"` + strings.Repeat("\xe9", 1<<20-20) + `"}`)})
		}},
		{"a text of 1 MB that is no UTF-8", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.txt", data: bytes.Repeat([]byte{0xe9}, 1<<20)})
		}},
		{"100,000 keys of an object", func() []byte {
			var all []string
			for i := range 100_000 {
				all = append(all, fmt.Sprintf(`"%d":1`, i))
			}
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.txt", data: []byte("x")}, entry{name: "a.json", data: []byte("{" + strings.Join(all, ",") + "}")})
		}},
		{"numbers of a megabyte", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.txt", data: []byte("x")}, entry{name: "a.json", data: []byte(`{"n":` + strings.Repeat("9", 1<<20-20) + `}`)})
		}},
	}
}

// furtherBatches lists bombs in the other codecs, and blocks that cost time and give nothing.
func furtherBatches() map[string]func() batch {
	return map[string]func() batch{
		"40 MB in lz4": func() batch {
			var out bytes.Buffer
			w := lz4.NewWriter(&out)
			zeros(w, 40<<20)
			mustClose(w)
			return batch{codec: lz, count: 1, body: out.Bytes()}
		},
		"noise in lz4": func() batch { return batch{codec: lz, count: 1, body: []byte("noise, noise, noise")} },
		"a million empty blocks of gzip": func() batch {
			head := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
			return batch{codec: gz, count: 1, body: append(head, emptyBlocks(9 << 20)[2:]...)}
		},
		"300,000 members of gzip": func() batch {
			return batch{codec: gz, count: 1, body: bytes.Repeat(gzipped(func(io.Writer) {}), 300_000)}
		},
		"a name of 9 MB in gzip": func() batch {
			return batch{codec: gz, count: 1, body: append([]byte("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff"), bytes.Repeat([]byte("n"), 9<<20)...)}
		},
		"a million empty blocks of snappy": func() batch {
			return batch{codec: snap, count: 1, body: append([]byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"), bytes.Repeat([]byte{0, 0, 0, 1, 0}, 1_000_000)...)}
		},
		"three million empty blocks of zstd": func() batch {
			return batch{codec: zst, count: 1, body: append([]byte("\x28\xb5\x2f\xfd\x00\x58"), bytes.Repeat([]byte{0, 0, 0}, 3_000_000)...)}
		},
		"a million skipped frames of zstd": func() batch {
			return batch{codec: zst, count: 1, body: bytes.Repeat([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), 1_000_000)}
		},
		"a batch in a batch": func() batch {
			return batch{codec: plain, count: 1, body: record(0, nil, batch{count: 1, body: record(0, nil, []byte("x"))}.bytes())}
		},
		"records in the wrong order": func() batch {
			return batch{codec: plain, count: 2, body: append(record(1, nil, []byte("x")), record(0, nil, []byte("y"))...)}
		},
		"two records of one place": func() batch {
			return batch{codec: plain, count: 2, body: append(record(0, nil, []byte("x")), record(0, nil, []byte("y"))...)}
		},
	}
}

// furtherValues lists values of the wrong kinds.
func furtherValues() map[string][]byte {
	number := binary.BigEndian.AppendUint64([]byte("\x81\xa7caption\xcb"), 0x7ff0000000000000)
	return map[string][]byte{
		"lists 10,000 deep under an unknown key": append(append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x91}, 10_000)...), 0xc0),
		"maps 10,000 deep under an unknown key":  append(append([]byte("\x81\xa1x"), bytes.Repeat([]byte("\x81\xa1x"), 10_000)...), 0xc0),
		"columns 10,000 deep":                    append(append([]byte("\x81\xa4meta\x81\xa1x"), bytes.Repeat([]byte{0x91}, 10_000)...), 0xc0),
		"columns of NaN and infinity":            []byte("\x81\xa4meta\x82\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\xa1b\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"),
		"columns of one name":                    []byte("\x81\xa4meta\x82\xa1a\x01\xa1a\x02"),
		"columns that are a list":                []byte("\x81\xa4meta\x93\x01\x02\x03"),
		"a caption that is infinite":             number,
		"a caption of bytes":                     []byte("\x81\xa7caption\xc4\x03abc"),
		"keys that are numbers":                  []byte("\x83\x01\x01\x02\x02\x03\x03"),
		"keys that are true":                     []byte("\x81\xc3\xa1x"),
		"keys that are maps":                     []byte("\x81\x80\xa1x"),
		"an id of 15 bytes":                      []byte("\x81\xa2id\xc4\x0f0123456789abcde"),
		"an id that is a text":                   []byte("\x81\xa2id\xb00123456789abcdef"),
		"an image that is a list":                []byte("\x81\xa5image\x93\x01\x02\x03"),
		"an image within itself":                 []byte("\x81\xa5image\x81\xa5image\x81\xa5image\x80"),
		"a list":                                 []byte("\x93\x01\x02\x03"),
		"the byte that is never used":            []byte("\xc1"),
	}
}
