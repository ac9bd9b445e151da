package torture

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Tar is a hostile tar.
type Tar struct {
	Name  string
	Build func() []byte
}

// Tars lists the tars. Some are cut, and some are not tars at all.
func Tars() []Tar {
	many := func(n int, caption func(i int) any) func() []byte {
		return func() []byte {
			list := make([]any, n)
			for i := range list {
				list[i] = caption(i)
			}
			text, _ := json.Marshal(map[string]any{"captions": list}) // these values can be written
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: text})
		}
	}
	return append(append(oddTars(), furtherTars()...), []Tar{
		{"110,000 captions of one image", many(110_000, func(i int) any { return strconv.Itoa(i) })},
		{"300,000 captions that are no text", many(300_000, func(int) any { return 1 })},
		{"captions nested 100,000 deep", func() []byte {
			return pack(entry{name: "a.png", data: pixel}, entry{name: "a.json", data: []byte(`{"captions":` + strings.Repeat("[", 100_000))})
		}},
		{"100,000 captions without image", func() []byte { return repeat(100_000, "%06d.txt", []byte("x")) }},
		{"100,000 images of one name", func() []byte { return repeat(100_000, "a.png", pixel) }},
		{"200 names of a megabyte", func() []byte {
			var all []entry
			for i := range 200 {
				all = append(all, entry{name: fmt.Sprintf("%s%d.png", strings.Repeat("n", 1000<<10), i), data: pixel})
			}
			return pack(all...)
		}},
		{"a name of five kilobytes, and its caption", func() []byte {
			name := strings.Repeat("n/", 2500)
			return pack(entry{name: name + "a.png", data: pixel}, entry{name: name + "a.txt", data: []byte("good")})
		}},
		{"64 MB of zeros", func() []byte { return make([]byte, 64<<20) }},
		{"64 MB of noise", func() []byte { return noise(64 << 20) }},
		{"an image of 8 exabytes", func() []byte { return declare(1<<63 - 1) }},
		{"a caption of 60 GB", func() []byte { return declare(60 << 30) }},
		{"an image of 40 MB", func() []byte {
			return pack(entry{name: "a.png", data: make([]byte, 40<<20)}, entry{name: "a.txt", data: []byte("x")})
		}},
		{"links, devices and pipes", func() []byte {
			var all []entry
			for i := range 5000 {
				all = append(all, entry{name: fmt.Sprintf("%d.png", i), kind: []byte{tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeFifo}[i%4]})
			}
			return pack(all...)
		}},
		{"damaged headers", func() []byte {
			raw := repeat(20_000, "%06d.txt", []byte("x"))
			for at := 0; at < len(raw); at += 2048 {
				raw[at+150] ^= 1
			}
			return raw
		}},
	}...)
}

// pixel is a PNG of one pixel.
var pixel = bomb{w: 1, h: 1, depth: 8}.encode()

type entry struct {
	name string
	data []byte
	kind byte
}

// pack writes entries as a tar. It leaves out what cannot be written, which the tests would see.
func pack(entries ...entry) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.data)), ModTime: time.Unix(0, 0)}
		if e.kind != 0 {
			h.Linkname = "/etc/passwd"
		} else {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err == nil {
			_, _ = w.Write(e.data) // memory never fails
		}
	}
	_ = w.Close()
	return buf.Bytes()
}

func repeat(n int, format string, data []byte) []byte {
	all := make([]entry, n)
	for i := range all {
		name := format
		if strings.Contains(format, "%") {
			name = fmt.Sprintf(format, i)
		}
		all[i] = entry{name: name, data: data}
	}
	return pack(all...)
}

// declare returns a tar of one entry that says it has size bytes, and has none.
func declare(size int64) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	_ = w.WriteHeader(&tar.Header{Name: "a.txt", Typeflag: tar.TypeReg, Size: size, Format: tar.FormatGNU}) // memory never fails
	return buf.Bytes()
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

// oddTars lists tars whose headers say strange things. Tools that only follow the format's rules do not write them.
func oddTars() []Tar { return append(paxTars(), otherTars()...) }

// sound is a good tar.
func sound() []byte {
	return pack(entry{name: "good.png", data: pixel}, entry{name: "good.txt", data: []byte("a good caption")})
}

func described(records string) []byte { return special('x', "pax", []byte(records)) }

func paxTars() []Tar {
	return []Tar{
		{"20,000 PAX records before an entry", func() []byte {
			var records strings.Builder
			for i := range 20_000 {
				records.WriteString(pax(fmt.Sprintf("vendor.%d", i), "x"))
			}
			return append(described(records.String()), sound()...)
		}},
		{"a PAX record of 60 MB", func() []byte { return append(described(pax("comment", strings.Repeat("c", 60<<20))), sound()...) }},
		{"30,000 PAX headers in a row", func() []byte { return append(bytes.Repeat(described(pax("comment", "x")), 30_000), sound()...) }},
		{"30,000 global PAX headers", func() []byte {
			return append(bytes.Repeat(special('g', "pax", []byte(pax("comment", "x"))), 30_000), sound()...)
		}},
		{"a PAX size of -1", func() []byte { return append(described(pax("size", "-1")), sound()...) }},
		{"a PAX size of 8 EB", func() []byte { return append(described(pax("size", "9223372036854775807")), sound()...) }},
		{"a PAX size of more", func() []byte { return append(described(pax("size", "99999999999999999999")), sound()...) }},
		{"a PAX path without end", func() []byte { return append(described("999999999 path=x\n"), sound()...) }},
		{"a PAX path with a zero", func() []byte { return append(described(pax("path", "a\x00b.png")), sound()...) }},
		{"a PAX time of -10^30", func() []byte { return append(described(pax("mtime", "-1000000000000000000000000000000")), sound()...) }},
	}
}

func otherTars() []Tar {
	return []Tar{
		{"20,000 long names before an entry", func() []byte {
			return append(bytes.Repeat(special('L', "././@LongLink", []byte("x.png\x00")), 20_000), sound()...)
		}},
		{"a long name of 60 MB", func() []byte {
			return append(special('L', "././@LongLink", bytes.Repeat([]byte("n"), 60<<20)), sound()...)
		}},
		{"long names alone", func() []byte { return bytes.Repeat(special('L', "././@LongLink", []byte("x.png\x00")), 20_000) }},
		{"a sparse file of 8 EB", func() []byte {
			return append(described(pax("GNU.sparse.major", "1")+pax("GNU.sparse.minor", "0")+pax("GNU.sparse.name", "a.png")+pax("GNU.sparse.realsize", "9223372036854775807")), sound()...)
		}},
		{"a sparse map of 100,000 parts", func() []byte {
			parts := strings.TrimSuffix(strings.Repeat("0,0,", 100_000), ",")
			return append(described(pax("GNU.sparse.numblocks", "100000")+pax("GNU.sparse.map", parts)), sound()...)
		}},
		{"an old sparse header", func() []byte { return append(special('S', "a.png", pixel), sound()...) }},
		{"a negative size", func() []byte {
			h := header512("a.png", '0', 0)
			copy(h[124:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\x00")
			return append(summed(h), sound()...)
		}},
		{"a size of no digits", func() []byte {
			h := header512("a.png", '0', 0)
			copy(h[124:], "0x00000zzzz\x00")
			return append(summed(h), sound()...)
		}},
		{"100,000 pairs of one name", func() []byte { return bytes.Repeat(withoutEnd(sound()), 20_000) }},
		{"1,000 tars behind one another", func() []byte { return bytes.Repeat(sound(), 1000) }},
		{"a tar in a tar", func() []byte {
			return pack(entry{name: "a.tar", data: sound()}, entry{name: "a.png", data: sound()}, entry{name: "a.txt", data: []byte("x")})
		}},
		{"names of zeros, controls and backslashes", func() []byte {
			var all []entry
			for i, name := range []string{"\x01\x02%d.png", "..\\..\\%d.png", "C:\\%d.png", "%d.png/../../x.png", "\xff\xfe%d.png", "%d\u202egnp.png", " %d .png", ".%d.png", "-%d.png"} {
				all = append(all, entry{name: fmt.Sprintf(name, i), data: pixel})
			}
			return pack(all...)
		}},
		{"compressed", func() []byte { return gzipped(func(w io.Writer) { zeros(w, 64<<20) }) }},
		{"a header of every type", func() []byte {
			var out []byte
			for kind := range 256 {
				out = append(out, header512("a.png", byte(kind), 0)...)
			}
			return append(out, sound()...)
		}},
	}
}

// pax encodes a record: its length, which counts its own digits, a key and a value.
func pax(key, value string) string {
	rest := fmt.Sprintf(" %s=%s\n", key, value)
	n := len(rest)
	for n != len(rest)+len(strconv.Itoa(n)) {
		n = len(rest) + len(strconv.Itoa(n))
	}
	return strconv.Itoa(n) + rest
}

// special is a header with contents that describe the next one.
func special(kind byte, name string, contents []byte) []byte {
	b := append(header512(name, kind, len(contents)), contents...)
	return append(b, make([]byte, (512-len(contents)%512)%512)...)
}

// header512 is a header with a correct checksum.
func header512(name string, kind byte, size int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], "00000000000\x00")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	return summed(h)
}

func summed(h []byte) []byte {
	copy(h[148:], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// withoutEnd cuts the two blocks off that end a tar.
func withoutEnd(b []byte) []byte { return b[:len(b)-1024] }
